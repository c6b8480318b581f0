"""A server that issues OAUTHBEARER tokens given by a test."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

__all__ = ["TokenServer", "unsecured_token"]


class TokenServer:
    """Answers all requests alike inside a ``with`` block; `received` has credentials and forms."""

    def __init__(self, answer: Any, status: int = 200) -> None:
        received: list[tuple[str, str]] = []
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                received.append((self.headers["Authorization"], form))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.received = received
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> TokenServer:
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
