"""A web server with a single answer, and tokens of OAUTHBEARER for it to issue."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

__all__ = ["WebRequest", "WebServer", "unsecured_token"]


class WebRequest(NamedTuple):
    """A request that a server has received."""

    path: str
    authorization: str | None
    body: str


class WebServer:
    """Answers all requests alike inside a ``with`` block, with bytes or with JSON; `received` has the requests."""

    def __init__(self, answer: Any, status: int = 200) -> None:
        received: list[WebRequest] = []
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                received.append(WebRequest(self.path, self.headers["Authorization"], body))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815 - the name that http.server calls

            def log_message(self, *_: object) -> None: ...

        self.received = received
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> WebServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def unsecured_token(user: str) -> str:
    """Return a token without a signature, which a broker accepts for an hour without further configuration."""
    now = int(time.time())
    claims = {"sub": user, "iat": now, "exp": now + 3600}
    return "".join(f"{_encoded(part)}." for part in ({"alg": "none"}, claims))


def _encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
