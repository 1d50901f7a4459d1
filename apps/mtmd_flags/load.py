"""From flags to a pipeline."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from llm.errors import UsageError
from mtmd_flags.options import ModelOptions
from mtmd_flags.texts import read_text

if TYPE_CHECKING:
    from mtmd.pipeline import Pipeline


def load(options: ModelOptions, progress: bool = False) -> Pipeline:
    """The model that `options` name, fetched from the hub if need be (`progress`: shown on a terminal).

    Raises UsageError for flags at odds, InputError, ModelError, TemplateError.
    """
    if options.cache_type_k != options.cache_type_v:
        raise UsageError(
            f"-ctk {options.cache_type_k} and -ctv {options.cache_type_v}: one type for both is needed"
        )
    model, mmproj = options.model, options.mmproj
    if options.hf_repo is not None:
        if model is not None:
            raise UsageError("-m and -hf both name a model; use one of them")
        from mtmd import hub

        found = hub.fetch(
            options.hf_repo,
            options.hf_file,
            mmproj=options.mmproj_auto and mmproj is None,
            token=options.hf_token,
            offline=options.offline,
            progress=progress,
        )
        model, mmproj = found.model, mmproj or found.mmproj

    import mtmd

    return mtmd.load(
        model,
        mmproj,
        n_ctx=options.n_ctx,
        n_batch=options.n_batch,
        n_ubatch=options.n_ubatch,
        threads=options.threads,
        kv_type=options.cache_type_k,
        compat=options.compat,
        precision=options.precision,
        chat_template=_chat_template(options),
    )


def kernels_are_cold() -> bool:
    """Whether the kernels have to be compiled yet, which takes up to a minute."""
    if os.environ.get("MTMD_KERNELS", "fast") != "fast":
        return False
    from llm.kernels import fast

    return fast.cache_is_cold()


def _chat_template(options: ModelOptions) -> str | None:
    if options.chat_template_file is None:
        return options.chat_template
    return read_text(options.chat_template_file)
