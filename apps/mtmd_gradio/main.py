"""mtmd-gradio: the page in a browser, served to this computer alone unless --host says otherwise."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from llm.errors import LlmError, ModelError, UsageError

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="mtmd-gradio", description="Describe pictures and transcribe clips in a browser."
    )
    p.add_argument("-m", "--model", metavar="FILE", help="text model, GGUF (default: the embedded one)")
    p.add_argument("-mm", "--mmproj", metavar="FILE", help="projector, GGUF (default: the one beside -hf)")
    p.add_argument("-hf", "--hf-repo", metavar="REPO", help="USER/REPO[:QUANT] from the hub (default: none)")
    p.add_argument(
        "-c",
        "--ctx-size",
        type=int,
        default=0,
        metavar="N",
        help="tokens of context, 0 = as trained (default: 0)",
    )
    p.add_argument(
        "-t", "--threads", type=int, default=0, metavar="N", help="0 = one for each core (default: 0)"
    )
    p.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    p.add_argument("--port", type=int, help="port to listen on (default: the first free one from 7860)")
    return p.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C; gives the exit status."""
    options = parse(argv)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit it ignored
    with tempfile.TemporaryDirectory(prefix="mtmd-gradio-") as folder:
        _be_private(folder)
        try:
            serve(options)
            return 0
        except KeyboardInterrupt:
            return 130
        except (LlmError, ImportError, OSError) as error:
            _say(f"error: {error}")
            return 2 if isinstance(error, UsageError) else 3 if isinstance(error, ModelError) else 1


def serve(options: argparse.Namespace) -> None:
    """Load the model, then open the page. Raises LlmError, OSError when the port is taken."""
    try:
        import gradio as gr
    except ImportError as error:
        raise ImportError(f'the page needs Gradio: pip install "mtmd[app]" ({error})') from error
    from mtmd.service import Service
    from mtmd_gradio.page import CSS, Page

    service = Service(partial(_load, options))
    if os.environ.get("MTMD_KERNELS", "fast") == "fast":
        from llm.kernels import fast

        if fast.cache_is_cold():
            _say("the first answer waits for kernels to be compiled (once, less than a minute)")
    page = Page(service).build()
    page.queue(max_size=32)
    _, url, _ = page.launch(
        server_name=options.host,
        server_port=options.port,
        css=CSS,
        theme=gr.themes.Default(),
        prevent_thread_lock=True,
        **settings(options.host),
    )
    _say(f"open {url} (Ctrl-C ends it)")
    if options.host not in LOOPBACK:
        _say("everybody who reaches this address can use it; microphone and camera need https")
    try:
        threading.Event().wait()
    finally:
        page.close(verbose=False)


def _say(text: str) -> None:
    print(f"mtmd-gradio: {text}", file=sys.stderr, flush=True)


def settings(host: str) -> dict[str, Any]:
    """What Gradio leaves open by default, closed."""
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    # A page of another site must not reach us by a name that it has resolve to 127.0.0.1.
    hosts = ["*"] if host in ("0.0.0.0", "::") else [*LOOPBACK, "[::1]", host]
    return {
        "share": False,
        "quiet": True,
        "run_history": False,
        "footer_links": [],
        "enable_monitoring": False,
        "max_file_size": "200mb",
        "allowed_paths": [],
        "ssr_mode": False,
        "mcp_server": False,
        "pwa": False,
        "app_kwargs": {"middleware": [Middleware(TrustedHostMiddleware, allowed_hosts=hosts)]},
    }


def _load(options: argparse.Namespace) -> Any:
    import mtmd

    model, mmproj = options.model, options.mmproj
    if options.hf_repo:
        if model:
            raise UsageError("-m and -hf both name a model; use one of them")
        from mtmd import hub

        found = hub.fetch(options.hf_repo, mmproj=mmproj is None, progress=True)
        model, mmproj = found.model, mmproj or found.mmproj
    return mtmd.load(model, mmproj, n_ctx=options.ctx_size, threads=options.threads)


def _be_private(folder: str) -> None:
    """Before Gradio is imported: no telemetry; uploads where only this user reads, and until the end only."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_TEMP_DIR"] = folder
