"""The flags of llama.cpp that no program here acts on, and the variables that stand for flags.

`WITHOUT_EFFECT` may pass: where the work is done, how it is scheduled and logged change nothing about the
answer. `REFUSED` may not: a run without them would give another answer than the one asked for.
"""

from __future__ import annotations


def _flags(text: str) -> list[str]:
    return text.split()


# flag -> how many values it takes; "?" is one or none (older spellings had none)
WITHOUT_EFFECT: dict[str, int | str] = {
    **dict.fromkeys(
        _flags("""
        --jinja --no-jinja -kvo --kv-offload -nkvo --no-kv-offload --repack -nr --no-repack --no-host --mlock
        --mmap --no-mmap --mmproj-offload --no-mmproj-offload -cmoe --cpu-moe --check-tensors --op-offload
        --no-op-offload --warmup --no-warmup --swa-full --simple-io --log-disable --log-jsonl --no-log-jsonl
        --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps -bs --backend-sampling
        --display-prompt --no-display-prompt"""),
        0,
    ),
    **dict.fromkeys(_flags("-fa --flash-attn -co --color --log-colors"), "?"),
    **dict.fromkeys(
        _flags("""
        -ngl --gpu-layers --n-gpu-layers -sm --split-mode -ts --tensor-split -mg --main-gpu -dev --device
        -mmdev --mmproj-device -ot --override-tensor -ncmoe --n-cpu-moe -ncffn --n-cpu-ffn --rpc --numa
        -fit --fit -fitt --fit-target -fitc --fit-ctx -lm --load-mode -lzm --lazy-mode -dt --defrag-thold
        -tb --threads-batch -C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb --cpu-mask-batch
        -Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch --log-file -lv --verbosity
        --log-verbosity --keep"""),
        1,
    ),
}

OPTIONAL_VALUES = ("on", "off", "auto", "0", "1")

REFUSED = frozenset(
    _flags("""
    --rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor
    --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast --override-kv --lora --lora-scaled --control-vector
    --control-vector-scaled --control-vector-layer-range --video --video-fps --video-timestamp-interval
    --video-ffmpeg-dir --image-min-tokens --image-max-tokens -mu --model-url -mmu --mmproj-url -dr
    --docker-repo -bf --binary-file -cl --cache-list --completion-bash --list-devices -r --reverse-prompt""")
)

# environment variable -> the flag it stands for, in programs that have it
ENVIRONMENT = {
    "LLAMA_ARG_MODEL": "--model",
    "LLAMA_ARG_HF_REPO": "--hf-repo",
    "LLAMA_ARG_HF_FILE": "--hf-file",
    "LLAMA_ARG_MMPROJ": "--mmproj",
    "LLAMA_ARG_CHAT_TEMPLATE": "--chat-template",
    "LLAMA_ARG_CHAT_TEMPLATE_FILE": "--chat-template-file",
    "LLAMA_ARG_N_PREDICT": "--predict",
    "LLAMA_ARG_CTX_SIZE": "--ctx-size",
    "LLAMA_ARG_BATCH": "--batch-size",
    "LLAMA_ARG_UBATCH": "--ubatch-size",
    "LLAMA_ARG_THREADS": "--threads",
    "LLAMA_ARG_CACHE_TYPE_K": "--cache-type-k",
    "LLAMA_ARG_CACHE_TYPE_V": "--cache-type-v",
    "LLAMA_ARG_TEMPERATURE": "--temp",
    "LLAMA_ARG_TOP_K": "--top-k",
    "LLAMA_ARG_TOP_P": "--top-p",
    "LLAMA_ARG_MIN_P": "--min-p",
    "LLAMA_ARG_REPEAT_PENALTY": "--repeat-penalty",
    "LLAMA_ARG_PRESENCE_PENALTY": "--presence-penalty",
    "LLAMA_ARG_FREQUENCY_PENALTY": "--frequency-penalty",
}

# the same for switches: -> (flag when it is on, flag when it is off)
SWITCHES: dict[str, tuple[str, str | None]] = {
    "LLAMA_ARG_MMPROJ_AUTO": ("--mmproj-auto", "--no-mmproj"),
    "LLAMA_ARG_OFFLINE": ("--offline", None),
    "LLAMA_ARG_PERF": ("--perf", "--no-perf"),
}
