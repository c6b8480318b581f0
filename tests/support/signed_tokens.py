"""Signed tokens for OAUTHBEARER, and the function of the token provider."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

PROVIDER = f"{__name__}:token"
_KEY_ID = "one"


class Signer:
    """A private key in a file, and its public key as brokers read it (JWKS)."""

    audience = "kafka"

    def __init__(self, folder: Path) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.private_key = folder / "private.pem"
        self.private_key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        numbers = key.public_key().public_numbers()
        public = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID}
        public |= {name: _number(value) for name, value in (("n", numbers.n), ("e", numbers.e))}
        self.public_keys = folder / "keys.json"
        self.public_keys.write_text(json.dumps({"keys": [public]}))
        self.requests = folder / "requests"

    def config(self, user: str = "alice", lifetime_s: float = 3600) -> str:
        """Return the configuration of `PROVIDER`: tokens of this signer for a user."""
        return json.dumps(
            {"key": str(self.private_key), "user": user, "lifetime_s": lifetime_s, "requests": str(self.requests)}
        )

    def count(self) -> int:
        """Return the number of tokens that all processes have requested."""
        return len(self.requests.read_text()) if self.requests.exists() else 0


def token(config: str) -> tuple[str, float]:
    """Sign a token, and append a character to the file of requests."""
    given = json.loads(config)
    with Path(given["requests"]).open("a") as requests:
        requests.write(".")
    now = time.time()
    claims = {"sub": given["user"], "aud": Signer.audience, "iss": "tests", "iat": now, "exp": now + given["lifetime_s"]}
    signed = f"{TOKEN_START}.{_encoded(claims)}"
    key = serialization.load_pem_private_key(Path(given["key"]).read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{_base64(signature)}", claims["exp"]


def _encoded(part: dict[str, object]) -> str:
    return _base64(json.dumps(part).encode())


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


TOKEN_START = _encoded({"alg": "RS256", "typ": "JWT", "kid": _KEY_ID})
"""The first part of each token."""
