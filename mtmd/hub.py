"""`-hf USER/REPO[:QUANT]`: which files of a hub repository make up a model, and fetching them.

The choice is llama.cpp's, so that the same words give the same files: the quant asked for, else Q4_K_M,
else Q8_0, else the first GGUF that is a model; and the mmproj nearest to it by folder, then by bits.
HF_HOME, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE mean what they mean to huggingface_hub, which fetches.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from llm.errors import ModelError, UsageError

log = logging.getLogger(__name__)

_SPLIT = re.compile(r"^(.+)-([0-9]{5})-of-([0-9]{5})$", re.IGNORECASE)
_QUANT = re.compile(r"[-.]([A-Z0-9_]+)$", re.IGNORECASE)
_NO_MODEL = (
    "mmproj",
    "imatrix",
    "mtp-",
    "eagle3-",
    "dflash-",
    "dspark-",
)  # what else a repository keeps as GGUF
_DEFAULT_QUANTS = ("Q4_K_M", "Q8_0")


@dataclass(frozen=True)
class HubFiles:
    """Local paths of the model, or the first part of a split one, and of its projector if it has one."""

    model: str
    mmproj: str | None


@dataclass(frozen=True)
class Split:
    """Where a GGUF belongs in a split model: it is part `index`, from 1, of the `count` named `stem`."""

    stem: str
    index: int
    count: int

    @staticmethod
    def of(path: str) -> Split:
        stem = path.removesuffix(".gguf")
        m = _SPLIT.match(stem)
        return Split(m[1], int(m[2]), int(m[3])) if m else Split(stem, 1, 1)

    @property
    def quant(self) -> str:
        m = _QUANT.search(self.stem)
        return m[1].upper() if m else ""

    @property
    def bits(self) -> int:
        """Q4_K_M -> 4, BF16 -> 16; 0 where the name does not say."""
        m = re.search(r"[0-9]+", self.quant)
        return int(m[0]) if m else 0


def parse_repo(spec: str) -> tuple[str, str]:
    """USER/REPO[:QUANT] -> ("USER/REPO", "QUANT" or "")."""
    repo, _, quant = spec.partition(":")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo) or ":" in quant:
        raise UsageError(f"-hf {spec}: not of the form USER/REPO or USER/REPO:QUANT")
    return repo, quant


def choose_model(files: Sequence[str], quant: str) -> str | None:
    """The GGUF that `quant` ("" = any) stands for, None if there is none."""
    heads = [f for f in files if _is_model(f) and Split.of(f).index == 1]
    for wanted in [quant] if quant else _DEFAULT_QUANTS:
        pattern = re.compile(re.escape(wanted) + "[.-]", re.IGNORECASE)
        for f in heads:
            if pattern.search(f):
                return f
    return heads[0] if heads and not quant else None


def choose_mmproj(files: Sequence[str], model: str) -> str | None:
    """The projector in the model's folder or above: the deepest, then nearest in bits, then first."""
    folders = PurePosixPath(model).parents
    found = [f for f in files if f.endswith(".gguf") and "mmproj" in f and PurePosixPath(f).parent in folders]

    def distance(f: str) -> tuple[int, int]:
        return -len(PurePosixPath(f).parent.parts), abs(Split.of(f).bits - Split.of(model).bits)

    return min(found, key=distance, default=None)


def parts(files: Sequence[str], model: str) -> list[str]:
    """All files of a split model in order, [model] if it is not split."""
    head = Split.of(model)
    found = sorted(
        f
        for f in files
        if f.endswith(".gguf") and (s := Split.of(f)).stem == head.stem and s.count == head.count
    )
    if len(found) != head.count:
        raise ModelError(
            f"{model}: {head.count} parts are announced, the repository has {len(found)} of them"
        )
    return found


def fetch(
    spec: str,
    file: str | None = None,
    *,
    mmproj: bool = True,
    token: str | None = None,
    offline: bool = False,
    progress: bool = False,
) -> HubFiles:
    """Download (or find in the cache) the model that `spec` means, `file` of it if given, and its projector.

    Raises UsageError for a malformed spec, ModelError for everything that the hub or the disk refuses.
    """
    from huggingface_hub import constants  # 0.2 s, and only this path needs it

    repo, quant = parse_repo(spec)
    online = not (offline or constants.HF_HUB_OFFLINE)
    files = _listed(repo, token) if online else _cached(repo)
    if not files:
        raise ModelError(f"{repo} is not in the cache ({constants.HF_HUB_CACHE}), and this run is offline")
    if file is None:
        model = choose_model(files, quant)
        if model is None:
            raise ModelError(_nothing_chosen(repo, quant, files))
    elif file in files:
        model = file
    else:
        raise ModelError(f"{repo} has no file {file}; it has {_shown(files)}")
    projector = choose_mmproj(files, model) if mmproj else None
    wanted = parts(files, model) + ([projector] if projector else [])
    paths = {f: _download(repo, f, token, progress) if online else str(_snapshot(repo) / f) for f in wanted}
    return HubFiles(paths[wanted[0]], paths[projector] if projector else None)


def _is_model(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.endswith(".gguf") and not any(word in name for word in _NO_MODEL)


def _nothing_chosen(repo: str, quant: str, files: Sequence[str]) -> str:
    quants = sorted({Split.of(f).quant for f in files if _is_model(f)} - {""})
    if quant and quants:
        return f"{repo} has no {quant}; it has {', '.join(quants)}"
    return f"{repo} has no GGUF model; it has {_shown(files)}"


def _shown(files: Sequence[str]) -> str:
    ggufs = [f for f in files if f.endswith(".gguf")] or list(files)
    return ", ".join(ggufs[:12]) + (f" and {len(ggufs) - 12} more" if len(ggufs) > 12 else "")


def _listed(repo: str, token: str | None) -> list[str]:
    """Paths in the repository, as the hub lists them; without a network those that were downloaded before."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        info = HfApi().model_info(
            repo, token=token, timeout=20
        )  # one request; listing the tree retries for 25 s
        return [sibling.rfilename for sibling in info.siblings or ()]
    except HfHubHTTPError as error:
        raise _explained(error, repo, "") from error
    except Exception as error:  # the transport's own classes, which differ between releases
        files = _cached(repo)
        if not files:
            raise _explained(error, repo, "") from error
        log.warning("cannot reach the hub, using the files of %s that were downloaded before", repo)
        return files


def _cached(repo: str) -> list[str]:
    """Paths of the repository's last used revision that lie in the cache."""
    snapshot = _snapshot(repo)
    return sorted(p.relative_to(snapshot).as_posix() for p in snapshot.rglob("*") if p.is_file())


def _snapshot(repo: str) -> Path:
    """The cache folder of that revision; a folder that does not exist if there is none."""
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"
    head = folder / "refs" / "main"
    return folder / "snapshots" / (head.read_text().strip() if head.is_file() else "none")


def _download(repo: str, file: str, token: str | None, progress: bool) -> str:
    from huggingface_hub import hf_hub_download

    try:
        with nullcontext() if progress else _no_progress():
            return hf_hub_download(repo, file, token=token)
    except Exception as error:  # hub, transport, disk: each has classes of its own
        raise _explained(error, repo, file) from error


@contextmanager
def _no_progress() -> Iterator[None]:
    """Without the bars of huggingface_hub, which it draws on terminals."""
    from huggingface_hub import utils

    if utils.are_progress_bars_disabled():  # type: ignore[attr-defined]
        yield
        return
    utils.disable_progress_bars()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        utils.enable_progress_bars()  # type: ignore[attr-defined]


def _explained(error: Exception, repo: str, file: str) -> ModelError:
    """The one line that tells a user what to do about it."""
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    what = f"{repo}/{file}" if file else repo
    if isinstance(error, GatedRepoError):
        return ModelError(
            f"{repo} is gated: accept its terms on its page, then give a token (-hft or HF_TOKEN)"
        )
    if isinstance(error, RepositoryNotFoundError):
        return ModelError(
            f"the hub has no {repo}, or it is private: check the spelling, or give a token (-hft or HF_TOKEN)"
        )
    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return ModelError(f"the hub lists {what} but does not have it")
    if isinstance(error, HfHubHTTPError):
        return ModelError(f"the hub refused {what}: {str(error).splitlines()[0]}")
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return ModelError(f"the disk is full, {what} could not be stored; HF_HOME moves the cache")
    return ModelError(
        f"cannot fetch {what} and it is not in the cache: no network? ({type(error).__name__}: {error})"
    )
