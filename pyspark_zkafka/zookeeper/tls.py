"""TLS to ZooKeeper, from PEM files."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from pyspark_zkafka.conditions import UNUSABLE_TLS_FILE
from pyspark_zkafka.options.values import ZooKeeperTls

__all__ = ["tls_context"]


def tls_context(tls: ZooKeeperTls) -> ssl.SSLContext:
    """The TLS context for connections, from the files; if there is a truststore, only its authorities are trusted.

    Raises OptionError for a file that is missing or invalid, and for a wrong password, without OpenSSL's prompt for one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_hostname
    if tls.truststore is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load("truststore", tls.truststore, "PEM certificates", context.load_verify_locations)
    if tls.keystore is not None:
        what = "the PEM certificate and private key, and zookeeper.ssl.keystore.password its password if it has one"
        password = tls.keystore_password or ""
        _load("keystore", tls.keystore, what, lambda file: context.load_cert_chain(file, None, lambda: password))
    return context


def _load(store: str, file: str, what: str, load: Callable[[str], None]) -> None:
    try:
        load(file)
    except OSError as error:
        raise UNUSABLE_TLS_FILE(
            f"zookeeper.ssl.{store}.location is {file!r}, which cannot be used here ({error}); it must be a file on the "
            f"driver and on every executor, with {what}",
        ) from error
