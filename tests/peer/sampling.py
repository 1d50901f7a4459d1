"""What the peer's samplers leave of fixed logits, and what its grammars allow after a text.

    PEER_PYTHON tests/peer/sampling.py    writes tests/golden/sampling.json

PEER_PYTHON is the interpreter of a venv with llama-cpp-python. The vocabulary is that of the sample model.
Settings bear our names; what a case does not set is off. "left" has [token, probability] of each token left.
"""

import ctypes
import json
import zlib
from pathlib import Path

import llama_cpp.llama_cpp as L  # noqa: N812
import numpy as np

HERE = Path(__file__).parent
ALL = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
SAID = [5, 9, 5, 300, 7, 5, 9, 42]
LOOP = [11, 12, 13, 14, 50, 12, 13, 14, 51, 11, 12, 13, 14]

CIRCLES = "a red circle: a red circle and a red"

CASES: list[tuple[dict, list[int] | str]] = [
    ({"top_k": 7}, []),
    ({"top_p": 0.5}, []),
    ({"top_p": 0.9}, []),
    ({"min_p": 0.1}, []),
    ({"min_p": 0.5}, []),
    ({"typical_p": 0.3}, []),
    ({"typical_p": 0.8, "top_k": 30}, []),
    ({"top_n_sigma": 1.0}, []),
    ({"top_n_sigma": 0.3}, []),
    ({"xtc_probability": 1.0, "xtc_threshold": 0.04, "top_k": 12}, []),
    ({"xtc_probability": 1.0, "xtc_threshold": 0.4}, []),
    ({"temperature": 0.5, "top_k": 9}, []),
    ({"temperature": 0.0}, []),
    ({"temperature": 1.0, "dynatemp_range": 0.5, "top_k": 9}, []),
    ({"temperature": 0.6, "dynatemp_range": 0.9, "dynatemp_exponent": 2.0, "top_k": 20}, []),
    ({"repeat_penalty": 1.8, "top_k": 12}, SAID),
    ({"repeat_penalty": 1.5, "repeat_last_n": 3, "top_k": 12}, SAID),
    ({"frequency_penalty": 0.7, "presence_penalty": 0.9, "top_k": 12}, SAID),
    ({"presence_penalty": -2.5, "samplers": ["top_k", "penalties"], "top_k": 12}, SAID),
    ({"dry_multiplier": 0.8, "top_k": 12}, LOOP),
    ({"dry_multiplier": 3.0, "dry_base": 1.2, "dry_allowed_length": 1, "top_k": 12}, LOOP),
    ({"dry_multiplier": 3.0, "dry_last_n": 8, "top_k": 12}, LOOP),
    ({"dry_multiplier": 5.0, "dry_allowed_length": 0, "dry_last_n": 4, "top_k": 12}, LOOP),
    ({"dry_multiplier": 0.8, "dry_base": 4.0, "top_k": 12}, [11] * 90),
    ({"dry_multiplier": 0.8, "top_k": 12}, CIRCLES),
    ({"dry_multiplier": 0.8, "dry_breakers": ["red c", "and"], "top_k": 12}, CIRCLES),
    ({"dry_multiplier": 0.8, "dry_breakers": [" circle and a"], "top_k": 12}, CIRCLES),
    (
        {"repeat_penalty": 1.3, "dry_multiplier": 0.5, "top_k": 40, "typical_p": 0.9, "top_p": 0.95}
        | {"min_p": 0.05, "temperature": 0.7},
        LOOP,
    ),
    ({"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}, []),
    ({"samplers": ["temperature", "top_p", "top_k"], "temperature": 3.0, "top_p": 0.6, "top_k": 25}, []),
    ({"mirostat": 1, "mirostat_tau": 2.0, "temperature": 0.7}, []),
    ({"mirostat": 1, "mirostat_tau": 4.0, "temperature": 1.0}, []),
    ({"mirostat": 2, "mirostat_tau": 2.0, "temperature": 0.7}, []),
    ({"mirostat": 2, "mirostat_tau": 0.2, "temperature": 1.0}, []),
    ({"samplers": ["min_p", "adaptive_p"], "min_p": 0.2, "adaptive_target": 0.1}, []),
    ({"samplers": ["min_p", "adaptive_p"], "min_p": 0.05, "adaptive_target": 0.7, "adaptive_decay": 0.5}, []),
    ({"logit_bias": [[3, 9.5], [4, 9.0], [3, -1.0]], "top_k": 6}, []),
]  # fmt: skip

GRAMMARS = [
    ('root ::= "a " shape ("," " " shape)*  # a list\nshape ::= "circle" | "square"', "a circle, square"),
    ('root ::= [a-z]+ "x" [^a-c\\n]{1,3}', "helloxyz "),
    ("root ::= sum\nsum ::= num ([-+] num)*\nnum ::= [1-9] [0-9]? | \"(\" sum \")\"", "1-(23+4)+5"),
    ('root ::= (word " "?)+ [.!]\nword ::= [A-Za-zé\\u00fc]{2,}', "The cat ésü is here."),
    (
        'root ::= obj\nobj ::= "{" ws (pair ("," ws pair)*)? "}"\npair ::= str ":" ws (str | obj | "true" )\n'
        'str ::= "\\"" ([^"\\\\\\x00-\\x1F] | "\\\\" ["\\\\n])* "\\""\nws ::= | " " | "\\n" [ \\t]{0,4}',
        '{"a": {\n "b\\"": true}, "c": "é"}',
    ),
    ('root ::= line{2}\nline ::= "- " (. | "\\n" )? "z"?\n', "- z- \nz"),
]  # fmt: skip


OFF = {
    "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0, "repeat_last_n": 64,
    "frequency_penalty": 0.0, "presence_penalty": 0.0, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0,
    "top_n_sigma": -1.0, "typical_p": 1.0, "xtc_probability": 0.0, "xtc_threshold": 0.1,
    "dry_multiplier": 0.0, "dry_base": 1.75, "dry_allowed_length": 2, "dry_last_n": 64,
    "dry_breakers": ["\n", ":", '"', "*"], "mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.0,
    "adaptive_target": -1.0, "adaptive_decay": 0.9, "samplers": ALL, "logit_bias": [],
}  # fmt: skip


def main() -> None:
    log = L.llama_log_callback(lambda level, text, data: None)
    L.llama_log_set(log, ctypes.c_void_p(0))
    params = L.llama_model_default_params()
    params.vocab_only = True
    path = HERE.parent.parent / "samples" / "scenes-text.gguf"
    vocab = L.llama_model_get_vocab(L.llama_model_load_from_file(str(path).encode(), params))
    n_vocab = L.llama_vocab_n_tokens(vocab)
    logits = np.round(np.random.default_rng(7).standard_normal(n_vocab) * 2.2, 3).astype(np.float32)
    logits[[11, 12, 13, 14, 5, 9, 300]] += np.float32(6)  # what was said is likely, so that penalties show
    logits = np.round(logits, 3)
    cases = []
    for settings, history in CASES:
        ids = tokenize(vocab, history) if isinstance(history, str) else history
        cases.append({"settings": settings, "history": ids, "left": left(vocab, logits, OFF | settings, ids)})
    grammars = [{"text": text, "answer": ids, "allowed": allowed(vocab, text, ids)}
                for text, answer in GRAMMARS for ids in [tokenize(vocab, answer)]]  # fmt: skip
    lines = [f'"logits": {json.dumps([round(float(x), 3) for x in logits])}', f'"off": {json.dumps(OFF)}']
    for name, rows in (("cases", cases), ("grammars", grammars)):
        lines.append(f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]")
    (HERE.parent / "golden" / "sampling.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def left(vocab, logits: np.ndarray, s: dict, history: list[int]) -> list[list]:
    """[token, probability] of each token that a chain leaves, by number."""
    n = len(logits)
    chain = L.llama_sampler_chain_init(L.llama_sampler_chain_default_params())
    for step in steps(vocab, n, s):
        L.llama_sampler_chain_add(chain, step)
    for tok in history:
        L.llama_sampler_accept(chain, tok)
    data = (L.llama_token_data * n)(*[L.llama_token_data(i, float(x), 0.0) for i, x in enumerate(logits)])
    array = L.llama_token_data_array(data, n, -1, False)
    L.llama_sampler_apply(chain, ctypes.byref(array))
    found = [(array.data[i].id, array.data[i].logit) for i in range(array.size)]
    found = sorted((tok, x) for tok, x in found if x > -np.inf)
    p = np.exp(np.array([x for _, x in found]) - max(x for _, x in found))
    return [[tok, round(float(x), 6)] for (tok, _), x in zip(found, p / p.sum())]


def steps(vocab, n_vocab: int, s: dict):
    if s["logit_bias"]:
        bias = (L.llama_logit_bias * len(s["logit_bias"]))(*[L.llama_logit_bias(*b) for b in s["logit_bias"]])
        yield L.llama_sampler_init_logit_bias(n_vocab, len(bias), bias)
    if s["mirostat"]:
        yield L.llama_sampler_init_temp(s["temperature"])
        if s["mirostat"] == 1:
            yield L.llama_sampler_init_mirostat(n_vocab, 1, s["mirostat_tau"], s["mirostat_eta"], 100)
        else:
            yield L.llama_sampler_init_mirostat_v2(1, s["mirostat_tau"], s["mirostat_eta"])
        return
    texts = [text.encode() for text in s["dry_breakers"]]
    breakers = (ctypes.c_char_p * len(texts))(*texts)
    make = {
        "penalties": lambda: L.llama_sampler_init_penalties(
            n_vocab, s["repeat_last_n"], s["repeat_penalty"], s["frequency_penalty"], s["presence_penalty"]
        ),
        "dry": lambda: L.llama_sampler_init_dry(
            vocab, s["dry_multiplier"], s["dry_base"], s["dry_allowed_length"], s["dry_last_n"],
            breakers, len(texts),
        ),
        "top_n_sigma": lambda: L.llama_sampler_init_top_n_sigma(s["top_n_sigma"]),
        "top_k": lambda: L.llama_sampler_init_top_k(s["top_k"]),
        "typ_p": lambda: L.llama_sampler_init_typical(s["typical_p"], 0),
        "top_p": lambda: L.llama_sampler_init_top_p(s["top_p"], 0),
        "min_p": lambda: L.llama_sampler_init_min_p(s["min_p"], 0),
        "xtc": lambda: L.llama_sampler_init_xtc(s["xtc_probability"], s["xtc_threshold"], 0, 1),
        "temperature": lambda: L.llama_sampler_init_temp_ext(
            s["temperature"], s["dynatemp_range"], s["dynatemp_exponent"]
        ),
        "adaptive_p": lambda: L.llama_sampler_init_adaptive_p(s["adaptive_target"], s["adaptive_decay"], 1),
    }  # fmt: skip
    yield from (make[name]() for name in s["samplers"])


def allowed(vocab, grammar: str, answer: list[int]) -> list[list[int]]:
    """[how many tokens may come, a checksum of them] before each token of the answer, and after the last.

    Left out are those on which the peer and llguidance differ by intent: to the peer control tokens are text,
    bytes that UTF-8 does not have may come everywhere, and U+0000 nowhere.
    """
    n = L.llama_vocab_n_tokens(vocab)
    sampler = L.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")
    found = []
    for tok in [*answer, None]:
        data = (L.llama_token_data * n)(*[L.llama_token_data(i, 0.0, 0.0) for i in range(n)])
        array = L.llama_token_data_array(data, n, -1, False)
        L.llama_sampler_apply(sampler, ctypes.byref(array))
        ids = np.array([i for i in range(n) if data[i].logit > -np.inf and sound(vocab, i)], np.int32)
        found.append([len(ids), zlib.crc32(ids.tobytes())])
        if tok is not None:
            L.llama_sampler_accept(sampler, tok)
    return found


def sound(vocab, tok: int) -> bool:
    if L.llama_vocab_is_eog(vocab, tok):
        return True
    buf = ctypes.create_string_buffer(64)
    n = L.llama_token_to_piece(vocab, tok, buf, len(buf), 0, False)
    piece = buf.raw[:n]
    return bool(piece) and piece[0] < 0xF5 and piece != b"\0"


def tokenize(vocab, text: str) -> list[int]:
    raw = text.encode()
    ids = (L.llama_token * (len(raw) + 16))()
    return ids[: L.llama_tokenize(vocab, raw, len(raw), ids, len(ids), False, False)]


if __name__ == "__main__":
    main()
