"""A tiny vocabulary like T5's: unigram scores, and rules of normalisation."""

from pathlib import Path

import gguf
import numpy as np

TEXTS = (
    "",
    " ",
    "hello",
    "  hello   world ",
    "hellohello lo\tworld\n",
    "ﬁne ﬁﬁ ＡBc",
    "xyz hello xyz",
    "日本 hello 日",
    "worlds' <x> a<x>b",
    "A\u0300 A\u0300A A",
)
_RULES = {"ﬁ": "fi", "Ａ": "A", "A": "a", "A\u0300": "à", "\t": " ", "\n": " ", "\u200b": "", "B": "b"}
_WORDS = {"▁": -2.5, "▁he": -3.0, "llo": -3.1, "▁hello": -5.9, "hello": -6.5, "lo": -3.3, "▁wor": -4.0}
_WORDS |= {"ld": -4.1, "▁world": -8.2, "orld": -4.1, "fi": -4.2, "▁f": -4.4, "ine": -4.5, "à": -6.0}
_WORDS |= {c: -5.0 - i / 10 for i, c in enumerate("abcdehilnorsw'本")}


def charsmap(rules: dict[str, str]) -> bytes:
    """`rules` as SentencePiece compiles them, each node with 256 places of its own."""
    nodes: list[dict[int, int]] = [{}]  # byte -> node
    ends: dict[int, int] = {}  # node -> where its text begins
    texts = b""
    for key, text in rules.items():
        node = 0
        for byte in key.encode():
            if byte not in nodes[node]:
                nodes[node][byte] = len(nodes)
                nodes.append({})
            node = nodes[node][byte]
        ends[node] = len(texts)
        texts += text.encode() + b"\0"
    entries = np.zeros(256 * (len(nodes) + 1), "<u4")
    todo = [(0, 0, 0)]  # node, its place, its label
    while todo:
        node, place, label = todo.pop()
        block = 256 * (node + 1)
        entries[place] = (place ^ block) << 10 | (node in ends) << 8 | label
        if node in ends:
            entries[block] = 1 << 31 | ends[node]
        todo += [(child, block ^ byte, byte) for byte, child in nodes[node].items()]
    return entries.nbytes.to_bytes(4, "little") + entries.tobytes() + texts


def write(path: Path, prefix: bool, merge: bool, rules: bool) -> Path:
    """The vocabulary as a GGUF file with these flags."""
    writer = gguf.GGUFWriter(path, "t5")
    writer.add_tokenizer_model("t5")
    tokens = ["<pad>", "</s>", "<unk>", "<x>", *_WORDS]
    normal = gguf.TokenType.NORMAL
    special = [gguf.TokenType.CONTROL, gguf.TokenType.CONTROL, gguf.TokenType.UNKNOWN]
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0, 0.0, 0.0, -7.0, *_WORDS.values()])
    writer.add_token_types([*special, gguf.TokenType.USER_DEFINED, *[normal] * len(_WORDS)])
    writer.add_add_space_prefix(prefix)
    writer.add_remove_extra_whitespaces(merge)
    if rules:
        writer.add_precompiled_charsmap(charsmap(_RULES))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path
