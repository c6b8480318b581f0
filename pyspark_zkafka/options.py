"""The one table of options (being written)."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ZooKeeperConfig"]


@dataclass(frozen=True, slots=True)
class ZooKeeperConfig:
    """How to reach an ensemble.

    `hosts` is ``host:port[,host:port...]`` without the chroot; `chroot` is ``""`` or starts with ``/`` and does not
    end with it.
    `auth` is ``(scheme, credential)`` with scheme ``digest`` (credential ``user:password``) or ``sasl`` (credential
    ``MECHANISM:user:password``), or None. `ssl` holds kazoo's TLS arguments (``ca``, ``certfile``, ``keyfile``,
    ``keyfile_password``, ``verify_certs``); None means no TLS.
    """

    hosts: str
    chroot: str = ""
    session_timeout_ms: int = 6000
    connection_timeout_ms: int = 6000
    auth: tuple[str, str] | None = field(default=None, repr=False)
    ssl: dict[str, object] | None = field(default=None, repr=False)
