"""What llama.cpp says to the sample files, through the ctypes binding of llama-cpp-python.

    python verify.py SAMPLES_DIR [--write]

Runs every case of SAMPLES_DIR/expected.json with the two GGUF files of that folder at temperature 0 and
compares with "answer" (torch, from evaluate.py); --write puts llama.cpp's own words there.  Needs no torch.

libmtmd's loader reads neither WebP nor Ogg and ignores EXIF orientation, so such files are handed to it as
upright PNG or WAV copies ("via" in expected.json tells so); torch gets the same pixels and samples.
"""

import argparse
import ctypes
import json
import os
import tempfile

import llama_cpp.llama_cpp as lib
import llama_cpp.mtmd_cpp as mtmd
import numpy as np

import media

MARKER = "<__media__>"


@lib.llama_log_callback
def _quiet(level: int, text: bytes, user_data: object) -> None:
    pass


class LlamaCpp:
    """The text model with its projector."""

    def __init__(self, folder: str, threads: int = 2):
        lib.llama_log_set(_quiet, ctypes.c_void_p(0))
        mtmd.mtmd_helper_log_set(_quiet, ctypes.c_void_p(0))
        lib.llama_backend_init()
        path = os.path.join(folder, "scenes-text.gguf").encode()
        self.model = lib.llama_model_load_from_file(path, lib.llama_model_default_params())
        p = lib.llama_context_default_params()
        p.n_ctx = p.n_batch = 2048
        p.n_threads = p.n_threads_batch = threads
        self.ctx = lib.llama_init_from_model(self.model, p)
        self.vocab = lib.llama_model_get_vocab(self.model)
        m = mtmd.mtmd_context_params_default()
        m.use_gpu, m.print_timings, m.n_threads, m.warmup = False, False, threads, False
        self.mtmd = mtmd.mtmd_init_from_file(
            os.path.join(folder, "scenes-mmproj.gguf").encode(), self.model, m
        )
        if not self.mtmd:
            raise SystemExit(f"llama.cpp cannot load the files of {folder}")

    def answer(self, files: list[str], prompt: str, limit: int = 120) -> str:
        """Greedy answer to one user turn: the media first, then the prompt."""
        lib.llama_memory_clear(lib.llama_get_memory(self.ctx), True)
        text = f"<|im_start|>user\n{MARKER * len(files)}{prompt}<|im_end|>\n<|im_start|>assistant\n".encode()
        bitmaps = (mtmd.mtmd_bitmap_p_ctypes * len(files))()
        for i, f in enumerate(files):
            bitmaps[i] = mtmd.mtmd_helper_bitmap_init_from_file(self.mtmd, f.encode(), False)
            if not bitmaps[i]:
                raise SystemExit(f"llama.cpp cannot read {f}")
        chunks = mtmd.mtmd_input_chunks_init()
        given = mtmd.mtmd_input_text(text, len(text), False, True)
        if mtmd.mtmd_tokenize(self.mtmd, chunks, ctypes.byref(given), bitmaps, len(files)) != 0:
            raise SystemExit("mtmd_tokenize failed")
        pos, count = lib.llama_pos(0), mtmd.mtmd_input_chunks_size(chunks)
        for i in range(count):
            start, chunk = pos.value, mtmd.mtmd_input_chunks_get(chunks, i)
            rc = mtmd.mtmd_helper_eval_chunk_single(
                self.mtmd, self.ctx, chunk, start, 0, 2048, i == count - 1, ctypes.byref(pos)
            )
            if rc != 0:
                raise SystemExit("mtmd_helper_eval_chunk_single failed")
        return self._decode(pos.value, limit)

    def _decode(self, pos: int, limit: int) -> str:
        n_vocab, out = lib.llama_vocab_n_tokens(self.vocab), b""
        buf = ctypes.create_string_buffer(256)
        for _ in range(limit):
            logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(self.ctx, -1), (n_vocab,))
            tok = int(np.argmax(logits))
            if lib.llama_vocab_is_eog(self.vocab, tok):
                break
            n = lib.llama_token_to_piece(self.vocab, tok, buf, len(buf), 0, True)
            out += buf.raw[:n]
            batch = lib.llama_batch_get_one((lib.llama_token * 1)(tok), 1)
            if lib.llama_decode(self.ctx, batch) != 0:
                raise SystemExit("llama_decode failed")
            pos += 1
        return out.decode("utf-8", "replace")


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("samples")
    ap.add_argument("--write", action="store_true", help="put llama.cpp's answers into expected.json")
    args = ap.parse_args()
    path = os.path.join(args.samples, "expected.json")
    with open(path) as f:
        cases = json.load(f)
    peer, same, right = LlamaCpp(args.samples), 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        for case in cases:
            given, via = media.plain_copies([os.path.join(args.samples, n) for n in case["files"]], tmp)
            got = peer.answer(given, case["prompt"])
            same += got == case.get("answer", got)
            right += got == case["truth"]
            marks = ("same " if got == case.get("answer", got) else "DIFF ") + (
                "right" if got == case["truth"] else "WRONG"
            )
            print(marks, *case["files"], "|", case["prompt"], "->", got, flush=True)
            if args.write:
                case["answer"] = got
                case.pop("via", None)
                case.update({"via": via} if via else {})
    print(f"llama.cpp == answer: {same}/{len(cases)}; llama.cpp == truth: {right}/{len(cases)}")
    if args.write:
        with open(path, "w") as f:
            json.dump(cases, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
