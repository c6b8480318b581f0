"""Certificates made with `cryptography`, for servers and clients on this machine."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

_KEY = ec.SECP256R1()


class Authority:
    """Signs certificates, and writes them as PEM files into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._key = folder, ec.generate_private_key(_KEY)
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._certificate = self._sign(name, self._key, x509.BasicConstraints(ca=True, path_length=0))
        self.file = self._write(f"{name}.pem", self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, host: x509.GeneralName, password: str | None = None) -> str:
        """Write a new key, optionally with a password, and its certificate for a host; return the file."""
        key = ec.generate_private_key(_KEY)
        certificate = self._sign(name, key, x509.SubjectAlternativeName([host]))
        locked: KeySerializationEncryption = NoEncryption()
        if password is not None:
            locked = BestAvailableEncryption(password.encode())
            store = pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, locked)
            self._write(f"{name}.p12", store)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
        return self._write(f"{name}.pem", private + certificate.public_bytes(Encoding.PEM))

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(self._key, hashes.SHA256())
        )

    def _write(self, name: str, content: bytes) -> str:
        file = self._folder / name
        file.write_bytes(content)
        return str(file)
