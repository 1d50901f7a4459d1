"""A model hub on loopback: what a download asks of the real one, and no more."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NOBODY = "http://127.0.0.1:9"  # the port of the discard service: nothing answers


class Hub:
    """Serves `files` as the repositories u/m and, to the token "good", u/gated; u/empty has no model."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files, self.asked = files, list[str]()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.hub = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Hub:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join(5)
        self._server.server_close()


def settings(home: Path, hub: Hub | None) -> dict[str, str]:
    """The environment of a process whose hub is `hub` (None: out of reach) and whose cache is `home`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "LLAMA_ARG_"))}
    return {**kept, "HF_HOME": str(home), "HF_ENDPOINT": hub.url if hub else NOBODY, "NO_PROXY": "127.0.0.1"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_HEAD(self) -> None:
        self._reply()

    def do_GET(self) -> None:
        self._reply()

    def _reply(self) -> None:
        hub: Hub = self.server.hub
        path = unquote(self.path.partition("?")[0])
        hub.asked.append(f"{self.command} {path}")
        if "u/gated" in path and self.headers.get("Authorization") != "Bearer good":
            self._send(b"", 403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "restricted"})
        elif not any(name in path for name in ("u/m", "u/gated", "u/empty")):
            self._send(b"", 401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "not found"})
        elif path.startswith("/api/models/"):
            names = ["README.md"] if "u/empty" in path else list(hub.files)
            info = {"id": "u/m", "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            self._send(json.dumps(info).encode(), 200, {"Content-Type": "application/json"})
        else:
            body = hub.files[path.rpartition("/")[2]]
            tag = hashlib.sha1(body).hexdigest()
            self._send(body, 200, {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"'})

    def _send(self, body: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass
