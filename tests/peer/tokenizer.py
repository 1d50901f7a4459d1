"""Golden token ids of tricky strings, as the peer gives them.

    PEER_PYTHON tests/peer/tokenizer.py MODELS    writes tests/golden/tokenizer_*.json

PEER_PYTHON is the interpreter of a venv with llama-cpp-python; MODELS is the folder of real weights. Each
file lists {"text", "plain": ids, "special": ids with control tokens parsed and BOS where one is wanted}.
"""

import ctypes
import json
import sys
from pathlib import Path

import llama_cpp.llama_cpp as L  # noqa: N812

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3": "gemma-3-270m-q4_k_m.gguf"}
TEXTS = (
    "",
    " ",
    "Hello, world!",
    "  two  spaces   and\ttabs\t\t",
    "line\r\nbreaks\n\n\n\nand\n \n  more\n",
    "I'll say they've WON'T it's 'quoted' d'accord",
    "3.14159 is 1,000,000 times 42 — ½ of ²³ and ٣٤",
    "Grüße aus Köln, naïve café, Ångström",
    "e\u0301 combining a\u0300\u0323 and Zalgo h\u0338\u0321\u0353",
    "日本語のテキスト、中文字符。한국어 문장",
    "Привет, мир! Γειά σου Κόσμε",
    "हिन्दी में कुछ शब्द ไทย עברית العربية",
    "👩‍👩‍👧‍👦 🇩🇪 🤷🏽‍♀️ ❤️",
    "zero\u200bwidth nb\u00a0space ideographic\u3000space \u2028 \ufeff",
    "control \x00\x01\x1b[0m\x7f\x85 characters",
    "def f(x):\n    return {'a': x**2, \"b\": [1, 2]}  # comment\n",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|>",
    "<bos><start_of_turn>user\nHi<end_of_turn>\n<eos></s><unk><unused7>",
    "<table><h1>&amp;</h1></table> [multimodal] <0x0A> ▁ ▁▁",
    "a" * 70 + " " * 70 + "\n" * 40 + "=" * 70,
    "\U0001f9ff\ue000\U000f0000\U0010ffff\ud7ff unassigned \u0378",
)


def main(folder: str) -> None:
    log = L.llama_log_callback(lambda level, text, data: None)
    L.llama_log_set(log, ctypes.c_void_p(0))
    for name, file in FILES.items():
        vocab = load(f"{folder}/{file}")
        rows = [
            {"text": t, "plain": tokenize(vocab, t, False), "special": tokenize(vocab, t, True)}
            for t in TEXTS
        ]
        lines = ",\n".join(json.dumps(row) for row in rows)
        (GOLDEN / f"tokenizer_{name}.json").write_text(f"[\n{lines}\n]\n")


def load(path: str):
    params = L.llama_model_default_params()
    params.vocab_only = True
    return L.llama_model_get_vocab(L.llama_model_load_from_file(path.encode(), params))


def tokenize(vocab, text: str, special: bool) -> list[int]:
    raw = text.encode("utf-8", "surrogatepass")
    ids = (L.llama_token * (len(raw) + 16))()
    return ids[: L.llama_tokenize(vocab, raw, len(raw), ids, len(ids), special, special)]


if __name__ == "__main__":
    main(sys.argv[1])
