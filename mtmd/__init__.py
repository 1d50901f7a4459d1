"""Pictures and recordings for GGUF language models.

    import mtmd
    pipeline = mtmd.load()  # the embedded sample model; or load("model.gguf", "mmproj.gguf")
    print(pipeline.describe("picture.png"))

`load` gives a Pipeline; its `chat` takes messages with text, pictures and recordings and streams an Answer.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm.sampling import Sampling as Sampling
    from mtmd.answer import Answer as Answer
    from mtmd.media import load_audio as load_audio
    from mtmd.media import load_image as load_image
    from mtmd.media import load_media as load_media
    from mtmd.pipeline import Pipeline as Pipeline
    from mtmd.pipeline import load as load
    from mtmd.prompt import Receipt as Receipt

# Imported when first asked for: `import mtmd` alone costs nothing.
_HOME = {
    "load": "mtmd.pipeline",
    "Pipeline": "mtmd.pipeline",
    "Answer": "mtmd.answer",
    "Receipt": "mtmd.prompt",
    "Sampling": "llm.sampling",
    "load_media": "mtmd.media",
    "load_image": "mtmd.media",
    "load_audio": "mtmd.media",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'mtmd' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME]


def _check_llm() -> None:
    """Another project on PyPI has an import package `llm`, too; with it in front nothing here could work."""
    spec = find_spec("llm")
    found = Path(spec.origin) if spec and spec.origin else None
    if found is None or not (found.parent / "kernels" / "operands.py").exists():
        raise ImportError(
            f"mtmd needs its own package llm, but `import llm` finds {found}: another project of that name "
            "is in the way; give mtmd a virtual environment of its own, or pip uninstall llm"
        )


_check_llm()
