"""TLS of a connection by librdkafka's properties, through Python's ssl."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark_zkafka.transport.direct.errors import Unsupported
from pyspark_zkafka.transport.direct.settings import TlsSettings

__all__ = ["tls_context"]


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context for connections to brokers; Unsupported if a file, a key or a cipher cannot be used."""
    try:
        return _context(settings)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        # Not the error's text: it may quote a key.
        raise Unsupported(f"TLS settings that Python's ssl refuses ({type(error).__name__})") from None


def _context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_certificate and settings.checks_host
    context.verify_mode = ssl.CERT_REQUIRED if settings.checks_certificate else ssl.CERT_NONE
    if settings.ciphers is not None:
        context.set_ciphers(settings.ciphers)
    _load_authorities(context, settings)
    _load_certificate(context, settings)
    return context


def _load_authorities(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.ca_pem is not None:
        context.load_verify_locations(cadata=settings.ca_pem)
    elif settings.ca_location is None:
        context.load_default_certs()
    elif Path(settings.ca_location).is_dir():
        context.load_verify_locations(capath=settings.ca_location)
    else:
        context.load_verify_locations(cafile=settings.ca_location)


def _load_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    certificate, key = settings.certificate_pem, settings.key_pem
    if certificate is None and settings.certificate_location is None:
        if key is not None or settings.key_location is not None:
            raise Unsupported("a private key without a certificate")
        return
    with _file(certificate, settings.certificate_location) as cert_file, _file(key, settings.key_location) as key_file:
        # A function, since OpenSSL would otherwise ask on the terminal for the password of a locked key.
        context.load_cert_chain(str(cert_file), key_file, password=lambda: settings.key_password or "")


@contextmanager
def _file(pem: str | None, location: str | None) -> Iterator[str | None]:
    """The location, or a file in memory with the PEM text: ssl reads a certificate and its key from files alone."""
    if pem is None:
        yield location
        return
    if not hasattr(os, "memfd_create"):
        raise Unsupported("keys as PEM texts on this system")
    descriptor = os.memfd_create("pem")
    try:
        os.write(descriptor, pem.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
