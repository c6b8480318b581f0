"""Free and reserved ports."""

from __future__ import annotations

import random
import socket
from itertools import cycle

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.processes import PortReservations


class Fixed(random.Random):
    """A random generator that returns the given ports in turn."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        super().__init__()
        self._ports = cycle(ports)

    def randrange(self, *args: int) -> int:  # type: ignore[override]
        return next(self._ports)


def test_a_port_is_taken_once() -> None:
    """A port reserved by one cluster is not given to another until it is released."""
    first = PortReservations()
    port = first.take()
    other = PortReservations(Fixed((port,)))
    with pytest.raises(LocalClusterError, match="NO_FREE_PORT"):
        other.take()
    first.close()
    assert other.take() == port
    other.close()


def test_a_port_in_use_is_passed_over() -> None:
    """A port on which any program listens is not given out."""
    free = PortReservations()
    spare = free.take()
    free.close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = PortReservations(Fixed((taken.getsockname()[1], spare)))
        assert ports.take() == spare
        ports.close()
