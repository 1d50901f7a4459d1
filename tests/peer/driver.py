"""The peer (llama.cpp through llama-cpp-python's ctypes bindings) as an oracle and a pace-maker.

Runs under the peer's own interpreter, never under ours: `pip install llama-cpp-python` in a venv of its own
builds it for the machine in about ten minutes. `EXTRA_BUFFERS = False` turns its repacked weights off, for
builds whose AMX code does not run.
"""

import ctypes
import time
from collections.abc import Sequence

import llama_cpp.llama_cpp as L  # noqa: N812
import llama_cpp.mtmd_cpp as M  # noqa: N812
import numpy as np

MARKER = "<__media__>"
EXTRA_BUFFERS = True
EXACT = False  # float32 keys and values, attention in single steps


@L.llama_log_callback
def _quiet(level, text, user_data):
    pass


class Peer:
    """A loaded text model with its context and, given an mmproj, its multimodal context."""

    def __init__(self, model: str, mmproj: str | None = None, n_ctx: int = 4096, threads: int = 2):
        L.llama_log_set(_quiet, ctypes.c_void_p(0))
        L.llama_backend_init()
        mp = L.llama_model_default_params()
        mp.use_extra_bufts = EXTRA_BUFFERS
        self.model = L.llama_model_load_from_file(model.encode(), mp)
        if not self.model:
            raise SystemExit(f"the peer cannot load {model}")
        self.vocab = L.llama_model_get_vocab(self.model)
        self.n_vocab = L.llama_vocab_n_tokens(self.vocab)
        p = L.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch = n_ctx, n_ctx, max(512, min(n_ctx, 2048))
        p.n_threads = p.n_threads_batch = threads
        if EXACT:
            p.type_k = p.type_v = L.GGML_TYPE_F32
            p.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.ctx = L.llama_init_from_model(self.model, p)
        self.n_batch = n_ctx
        self.mctx = _load_mmproj(mmproj, self.model, threads) if mmproj else None
        self._chunks = None

    def tokenize(self, text: str, special: bool = False, bos: bool = False) -> list[int]:
        raw = text.encode()
        buf = (L.llama_token * (len(raw) + 16))()
        n = L.llama_tokenize(self.vocab, raw, len(raw), buf, len(buf), bos, special)
        return list(buf[:n])

    def piece(self, tok: int) -> bytes:
        buf = ctypes.create_string_buffer(256)
        return buf.raw[: L.llama_token_to_piece(self.vocab, tok, buf, len(buf), 0, True)]

    def clear(self) -> None:
        L.llama_memory_clear(L.llama_get_memory(self.ctx), True)

    def decode(self, ids: Sequence[int], pos: int, all_logits: bool = False) -> None:
        batch = L.llama_batch_init(len(ids), 0, 1)
        for i, tok in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = tok, pos + i, 1, 0
            batch.logits[i] = all_logits or i == len(ids) - 1
        batch.n_tokens = len(ids)
        if L.llama_decode(self.ctx, batch) != 0:
            raise SystemExit("llama_decode failed")
        L.llama_batch_free(batch)

    def row(self, i: int = -1) -> np.ndarray:
        """Logits of row `i` of the last decode, a view [n_vocab]."""
        return np.ctypeslib.as_array(L.llama_get_logits_ith(self.ctx, i), (self.n_vocab,))

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """Logits after each token of a fresh sequence, [n_tok, n_vocab]."""
        self.clear()
        self.decode(ids, 0, all_logits=True)
        return np.stack([self.row(i).copy() for i in range(len(ids))])

    def chunks(self, parts: Sequence[str | dict], bos: bool = True) -> list[tuple[str, ctypes.c_void_p]]:
        """The tokenised prompt of text and {"media": path} parts: (kind, chunk) in order."""
        text = "".join(p if isinstance(p, str) else MARKER for p in parts).encode()
        files = [p["media"] for p in parts if not isinstance(p, str)]
        bitmaps = (M.mtmd_bitmap_p_ctypes * len(files))()
        for i, path in enumerate(files):
            bitmaps[i] = M.mtmd_helper_bitmap_init_from_file(self.mctx, str(path).encode(), False)
            if not bitmaps[i]:
                raise SystemExit(f"the peer cannot read {path}")
        out = M.mtmd_input_chunks_init()
        inp = M.mtmd_input_text(text, len(text), bos, True)
        rc = M.mtmd_tokenize(self.mctx, out, ctypes.byref(inp), bitmaps, len(files))
        if rc != 0:
            raise SystemExit(f"mtmd_tokenize failed: {rc}")
        self._chunks = out  # keeps the memory that the chunk pointers point into
        kinds = {0: "text", 1: "image", 2: "audio"}
        chunks = [M.mtmd_input_chunks_get(out, i) for i in range(M.mtmd_input_chunks_size(out))]
        return [(kinds[M.mtmd_input_chunk_get_type(c)], c) for c in chunks]

    def text_ids(self, chunk) -> list[int]:
        n = ctypes.c_size_t()
        p = M.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(n))
        return [p[i] for i in range(n.value)]

    def encode(self, chunk) -> np.ndarray:
        """Embedding rows of a media chunk, [n_tok, n_embd_inp]."""
        if M.mtmd_encode_chunk(self.mctx, chunk) != 0:
            raise SystemExit("mtmd_encode_chunk failed")
        n, d = M.mtmd_input_chunk_get_n_tokens(chunk), L.llama_model_n_embd_inp(self.model)
        return np.ctypeslib.as_array(M.mtmd_get_output_embd(self.mctx), (n * d,)).reshape(n, d).copy()

    def generate(self, parts: Sequence[str | dict], n: int, bos: bool = True) -> list[int]:
        """At most `n` greedy token ids after the prompt; the end-of-generation token is the last of them."""
        self.clear()
        pos = self._prefill(parts, bos)
        out: list[int] = []
        while len(out) < n:
            out.append(int(np.argmax(self.row())))
            if L.llama_vocab_is_eog(self.vocab, out[-1]):
                break
            self.decode(out[-1:], pos)
            pos += 1
        return out

    def _prefill(self, parts: Sequence[str | dict], bos: bool) -> int:
        if not self.mctx:
            ids = self.tokenize("".join(parts), special=True, bos=bos)
            self.decode(ids, 0)
            return len(ids)
        pos, chunks = 0, self.chunks(parts, bos)
        for i, (_, chunk) in enumerate(chunks):
            after, last = L.llama_pos(pos), i == len(chunks) - 1
            rc = M.mtmd_helper_eval_chunk_single(
                self.mctx, self.ctx, chunk, pos, 0, self.n_batch, last, ctypes.byref(after)
            )
            if rc != 0:
                raise SystemExit("mtmd_helper_eval_chunk_single failed")
            pos = after.value
        return pos

    def prefill_seconds(self, ids: Sequence[int]) -> float:
        self.clear()
        began = time.perf_counter()
        self.decode(ids, 0)
        return time.perf_counter() - began

    def decode_seconds(self, ids: Sequence[int], depth: int = 1) -> float:
        """One token after the other, behind `depth` rows that are there already."""
        self.clear()
        self.decode([ids[0]] * depth, 0)
        began = time.perf_counter()
        for i, tok in enumerate(ids):
            self.decode([tok], depth + i)
        return time.perf_counter() - began


def _load_mmproj(path: str, model, threads: int):
    M.mtmd_helper_log_set(_quiet, ctypes.c_void_p(0))
    p = M.mtmd_context_params_default()
    p.use_gpu, p.print_timings, p.n_threads, p.warmup = False, False, threads, False
    mctx = M.mtmd_init_from_file(path.encode(), model, p)
    if not mctx:
        raise SystemExit(f"the peer cannot load {path}")
    return mctx
