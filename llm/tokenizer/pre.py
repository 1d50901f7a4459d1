"""How byte-pair vocabularies cut text into words before merging: one entry per `tokenizer.ggml.pre`.

Each entry is a sequence of patterns; each pattern cuts every word of the one before into its matches and what
lies between. The patterns are those of the models' own tokenizer.json, also where llama.cpp's regular
expressions cannot tell upper from lower case outside ASCII (tekken, gpt-4o and their kin).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _llama3(
    digits: str, letter: str = r"\p{L}", tail: str = _TAIL, contraction: str = _CONTRACTION + "|"
) -> str:
    other = letter.strip("[]")
    return rf"{contraction}[^\r\n\p{{L}}\p{{N}}]?{letter}+|{digits}| ?[^\s{other}\p{{N}}]+[\r\n]*|{tail}"


def _cased(digits: str, contraction: str, but: str = "", slash: str = "/") -> str:
    """Words that also end before an upper-case letter which follows a lower-case one."""
    upper = rf"(?:{but}[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}])"
    lower = rf"(?:{but}[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}])"
    lead = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{lead}{upper}*{lower}+{contraction}|{lead}{upper}+{lower}*{contraction}"
        rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n{slash}]*|{_TAIL}"
    )


_THREE = r"\p{N}{1,3}"
_THREES_FROM_THE_RIGHT = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
_KANA_OR_HAN = r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_PUNCTUATED = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"
)
_DEEPSEEK3 = rf"{_PUNCTUATED}[\r\n]*|{_TAIL}"
_CJK = r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_CASED_LETTERS = (
    r"A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-"
    r"\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-"
    r"\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf"
    r"\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-"
    r"\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
    r"\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
    r"\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e"
    r"\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-"
    r"\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    r"\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-"
    r"\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_DEEPSEEK = (
    r"[\r\n]",
    rf"\s?[{_CASED_LETTERS}]+",
    r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+\Z",
    _CJK,
    r"\p{N}+",
)
_BLOOM = r" ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_AFMOE_SCRIPTS = (
    r"[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-"
    r"\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)
_YOUTU_SCRIPTS = (
    r"[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-"
    r"\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
)
_JAIS2_TAIL = (
    r"\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)"
    r"|\s{4}(?!\S)|\s{1,2}(?!\S)|\s"
)


@dataclass(frozen=True)
class Pre:
    """Patterns that cut text into words, and what comes with them.

    `whole_words`: a word that is a token needs no merging (ignore_merges elsewhere). `raw`: the vocabulary
    spells its tokens in plain UTF-8 with ▁ for a space, not in the alphabet of bytes.
    """

    patterns: Sequence[str]
    add_bos: bool = False
    whole_words: bool = False
    raw: bool = False

    @cached_property
    def _compiled(self) -> list[Any]:
        import regex  # 40 ms, and SentencePiece vocabularies never need it

        return [regex.compile(f"({pattern})") for pattern in self.patterns]

    def split(self, text: str) -> list[str]:
        """`text` cut into words; together they are the text."""
        words = [text]
        for pattern in self._compiled:
            words = list(filter(None, chain.from_iterable(map(pattern.split, words))))
        return words


_LLAMA3 = Pre((_llama3(_THREE),), add_bos=True, whole_words=True)
_CHATGLM = Pre((_llama3(_THREE),))
_CASED = Pre((_cased(_THREE, _CONTRACTION + "?"),))
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_EXAONE_MOE = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED_CODER = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_TAIL}"
_CHAMELEON = (
    r"<sentinel:[0-9]+>",
    r"IMGIMG[A-I]{1,4}Z",
    r"[\t\n]|    |  ",
    r"\p{N}",
    r"[\p{P}!-/:-@\[-`{-~]",
    _GPT2,
)
DEFAULT = Pre((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"))

_GROUPS: list[tuple[str, Pre]] = [
    ("default", DEFAULT),
    ("llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", _LLAMA3),
    ("dbrx smaug-bpe chatglm-bpe", _CHATGLM),
    ("glm4 glm5", replace(_CHATGLM, whole_words=True)),
    (
        "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
        Pre((_llama3(r"\p{N}"),)),
    ),
    ("qwen35", Pre((_llama3(r"\p{N}", r"[\p{L}\p{M}]"),))),
    ("ufakzeka", Pre((_llama3(r"\p{N}", contraction=""),))),
    ("jais-2", Pre((_llama3(_THREE, tail=_JAIS2_TAIL),))),
    ("minicpm5", Pre((_THREE, _llama3(r"\p{N}+")), whole_words=True)),
    ("laguna", Pre((r"[^\n]+|\n+", _llama3(r"\p{N}")))),
    ("seed-coder", Pre((_SEED_CODER,))),
    ("bailingmoe bailingmoe2 llada-moe", Pre((_BAILING,))),
    ("exaone-moe", Pre((_EXAONE_MOE,))),
    (
        "gpt-2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe gigachat "
        "a.x-4.0 mellum modern-bert mpt olmo jais trillion granite-docling exaone4",
        Pre((_GPT2,)),
    ),
    (
        "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
        Pre((r"\p{N}", _GPT2)),
    ),
    ("falcon", Pre((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]"))),
    ("deepseek-llm", Pre(_DEEPSEEK)),
    ("deepseek-coder", Pre((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}"))),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", Pre((_THREE, _KANA_OR_HAN, _DEEPSEEK3))),
    ("spark2_5", Pre((_THREE, _KANA_OR_HAN, rf"{_PUNCTUATED}|[\r\n]|\s+(?!\S)|\s+", r"\p{N}"))),
    ("afmoe", Pre((_THREES_FROM_THE_RIGHT, _AFMOE_SCRIPTS, _DEEPSEEK3))),
    ("superbpe", Pre((r"\p{N}+", _THREES_FROM_THE_RIGHT))),
    ("tekken", Pre((_cased(r"\p{N}", ""),), add_bos=True, whole_words=True)),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", _CASED),
    ("granite-embed-multi-97m", replace(_CASED, whole_words=True)),
    ("tiny_aya cohere2moe", Pre((_THREES_FROM_THE_RIGHT, *_CASED.patterns))),
    ("youtu", Pre((_YOUTU_SCRIPTS, _cased(r"\p{N}", _CONTRACTION + "?")), whole_words=True)),
    ("kimi-k2", Pre((r"\p{Han}+|" + _cased(_THREE, _CONTRACTION + "?", but=r"(?!\p{Han})", slash=""),))),
    ("chameleon", Pre(_CHAMELEON, add_bos=True)),
    ("poro-chat bloom gpt3-finnish", Pre((_BLOOM,))),
    ("viking", Pre((_BLOOM, r"\p{N}"))),
    ("gemma4 granite-embed-multi-311m sarvam-moe", Pre((r"[^\n]+|\n+",), raw=True)),
]
PRE = {name: pre for names, pre in _GROUPS for name in names.split()}
