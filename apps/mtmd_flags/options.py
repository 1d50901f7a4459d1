"""The flags of a model and of sampling, in llama.cpp's names. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mtmd_flags.parser import flag, repeated, switch

KV_TYPES = ("f32", "f16", "bf16", "q8_0")


@dataclass(frozen=True)
class ModelOptions:
    """Which files are loaded, and how. `mtmd_flags.load` does it."""

    model: str | None = flag("model", "-m --model", None, "FILE", "text model (default: the embedded one)")
    mmproj: str | None = flag(
        "model", "-mm --mmproj", None, "FILE", "projector (default: the one beside -hf)"
    )
    hf_repo: str | None = flag(
        "model", "-hf -hfr --hf-repo", None, "REPO", "USER/REPO[:QUANT] from the hub (default quant: Q4_K_M)"
    )
    hf_file: str | None = flag(
        "model", "-hff --hf-file", None, "FILE", "file of REPO (default: by its quant)"
    )
    hf_token: str | None = flag(
        "model", "-hft --hf-token", None, "TOKEN", "access token (default: $HF_TOKEN)"
    )
    offline: bool = switch("model", "--offline", "", False, "no network, only what is downloaded already")
    mmproj_auto: bool = switch(
        "model", "--mmproj-auto", "--no-mmproj --no-mmproj-auto", True, "with -hf: fetch no projector"
    )
    chat_template: str | None = flag(
        "answer", "--chat-template", None, "NAME", "built-in name or Jinja text (default: the model's)"
    )
    chat_template_file: str | None = flag(
        "answer", "--chat-template-file", None, "FILE", "Jinja file (default: the model's)"
    )
    n_ctx: int = flag("machine", "-c --ctx-size", 0, "N", "tokens of context, 0 = as the model was trained")
    n_batch: int = flag("machine", "-b --batch-size", 2048, "N", "tokens decoded in one call")
    n_ubatch: int = flag("machine", "-ub --ubatch-size", 512, "N", "tokens computed at once")
    threads: int = flag("machine", "-t --threads", 0, "N", "0 = one for each core")
    cache_type_k: Literal["f32", "f16", "bf16", "q8_0"] = flag(
        "machine", "-ctk --cache-type-k", "f16", "TYPE", "keys of the context, or f32, bf16, q8_0", *KV_TYPES
    )
    cache_type_v: Literal["f32", "f16", "bf16", "q8_0"] = flag(
        "machine", "-ctv --cache-type-v", "f16", "TYPE", "values, of the same type as the keys", *KV_TYPES
    )
    precision: Literal["fast", "auto", "exact"] = flag(
        "machine", "--precision", "auto", "fast|auto|exact", "8 bits .. float32", "fast", "auto", "exact"
    )
    compat: Literal["authors", "peer"] = flag(
        "machine", "--compat", "authors", "authors|peer", "prepare media as they do", "authors", "peer"
    )


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are chosen. `mtmd_flags.sampling` makes a `Sampling` of it."""

    temperature: float = flag("answer", "--temperature --temp", 0.2, "T", "0 = always the likeliest token")
    top_k: int = flag("answer", "--top-k", 40, "N", "choose among the N likeliest, 0 = off")
    top_p: float = flag("answer", "--top-p", 0.95, "P", "choose among the likeliest that sum to P, 1 = off")
    min_p: float = flag("answer", "--min-p", 0.05, "P", "at least P times the likeliest, 0 = off")
    repeat_penalty: float = flag(
        "answer", "--repeat-penalty", 1.0, "X", "divide what was said already by X, 1 = off"
    )
    repeat_last_n: int = flag(
        "answer", "--repeat-last-n", 64, "N", "tokens that penalties look back, -1 = all"
    )
    presence_penalty: float = flag(
        "answer", "--presence-penalty", 0.0, "X", "subtract X if said already, 0 = off"
    )
    frequency_penalty: float = flag(
        "answer", "--frequency-penalty", 0.0, "X", "subtract X each time, 0 = off"
    )
    seed: int = flag("answer", "-s --seed", -1, "N", "of the random choice, -1 = another each time")
    ignore_eos: bool = switch("answer", "--ignore-eos", "", False, "never end the answer")
    samplers: str | None = flag(
        "sampling", "--samplers", None, "A;B;C", "which samplers, in which order (default: as listed here)"
    )
    sampler_seq: str | None = flag(
        "sampling",
        "--sampling-seq --sampler-seq",
        None,
        "SEQ",
        "the same in letters (default: edskypmxt)",
    )
    dry_multiplier: float = flag("sampling", "--dry-multiplier", 0.0, "X", "against repetitions, 0 = off")
    dry_base: float = flag("sampling", "--dry-base", 1.75, "X", "raised to the power of the length")
    dry_allowed_length: int = flag("sampling", "--dry-allowed-length", 2, "N", "of a repetition")
    dry_last_n: int = flag("sampling", "--dry-penalty-last-n", 64, "N", "tokens searched, -1 = all")
    dry_breakers: tuple[str, ...] = repeated(
        "sampling",
        "--dry-sequence-breaker",
        "TEXT",
        r"""ends a repetition, "none" = none; may be repeated (default: \n : " *)""",
    )
    top_n_sigma: float = flag(
        "sampling", "--top-nsigma --top-n-sigma", -1.0, "X", "within X sigma of the likeliest, -1 = off"
    )
    typical_p: float = flag("sampling", "--typical --typical-p", 1.0, "P", "locally typical, 1 = off")
    xtc_probability: float = flag(
        "sampling", "--xtc-probability", 0.0, "P", "leave out the likeliest so often, 0 = off"
    )
    xtc_threshold: float = flag("sampling", "--xtc-threshold", 0.1, "P", "but one of all above P")
    dynatemp_range: float = flag(
        "sampling", "--dynatemp-range", 0.0, "X", "let --temp vary by X with the entropy, 0 = off"
    )
    dynatemp_exponent: float = flag("sampling", "--dynatemp-exp", 1.0, "X", "entropy to the power of X")
    mirostat: int = flag("sampling", "--mirostat", 0, "N", "version 1 or 2 instead of the others, 0 = off")
    mirostat_tau: float = flag("sampling", "--mirostat-ent", 5.0, "X", "surprise to keep, in bits")
    mirostat_eta: float = flag("sampling", "--mirostat-lr", 0.1, "X", "how fast it is corrected")
    adaptive_target: float = flag(
        "sampling", "--adaptive-target", -1.0, "P", "with sampler adaptive_p: prefer P, -1 = off"
    )
    adaptive_decay: float = flag("sampling", "--adaptive-decay", 0.9, "X", "weight of what was chosen before")
    logit_bias: tuple[str, ...] = repeated(
        "sampling",
        "-l --logit-bias",
        "ID+X",
        "add to a token's logit, as 15043-inf; may be repeated (default: none)",
    )
    json_schema: str | None = flag(
        "structure", "-j --json-schema", None, "JSON", "the answer matches this schema (default: none)"
    )
    json_schema_file: str | None = flag(
        "structure", "-jf --json-schema-file", None, "FILE", "the same from a file (default: none)"
    )
    regex: str | None = flag(
        "structure", "--regex", None, "REGEX", "it matches this regular expression (default: none)"
    )
    grammar: str | None = flag(
        "structure", "--grammar", None, "GBNF", "it matches this grammar (default: none)"
    )
    grammar_file: str | None = flag(
        "structure", "--grammar-file", None, "FILE", "the same from a file (default: none)"
    )
    lark: str | None = flag("structure", "--lark", None, "LARK", "it matches this grammar (default: none)")
    lark_file: str | None = flag(
        "structure", "--lark-file", None, "FILE", "the same from a file (default: none)"
    )
