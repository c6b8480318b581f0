"""Translation of kazoo's errors."""

from __future__ import annotations

import pickle

import pytest
from kazoo import exceptions as kazoo
from kazoo.handlers.threading import KazooTimeoutError

from pyspark_zkafka.errors import ZKafkaError, ZooKeeperError, ZooKeeperRefused
from pyspark_zkafka.zookeeper import kazoo_client as errors
from tests.support.cases import each
from tests.support.options import ensemble_config

CONFIG = ensemble_config("zk1:2181", "/kafka", auth=("digest", "alice:open-sesame"))


@each(
    ("error", "kind", "text"),
    [
        (kazoo.NoAuthError(), ZooKeeperRefused, "Reading /x was refused: an ACL forbids it, asked as the digest user"),
        (kazoo.AuthFailedError(), ZooKeeperRefused, "does not accept the credentials"),
        (kazoo.NotReadOnlyCallError(), ZooKeeperRefused, "read-only mode"),
        (kazoo.QuotaExceededError(), ZooKeeperRefused, "a quota is exceeded"),
        (KazooTimeoutError(), ZooKeeperError, "zk1:2181 got no answer within 6000 ms"),
        (kazoo.ConnectionLoss(), ZooKeeperError, r"the connection or the session was lost \(ConnectionLoss\)"),
        (kazoo.SessionExpiredError(), ZooKeeperError, "SessionExpiredError"),
        (kazoo.SystemZookeeperError(), ZooKeeperError, "SystemZookeeperError"),
    ],
)
def test_errors_of_kazoo_become_ours(error: Exception, kind: type[ZKafkaError], text: str) -> None:
    """Each error names the action and the remedy, hides credentials, and survives pickling."""
    ours = errors.translate(error, "Reading /x", CONFIG)
    assert type(ours) is kind
    assert "open-sesame" not in str(ours)
    assert str(pickle.loads(pickle.dumps(ours))) == str(ours)
    with pytest.raises(kind, match=text):
        raise ours


def test_only_losses_of_connection_or_session_are_passing() -> None:
    """Only losses of connection or session are temporary; a closed client and a refusal are not."""
    assert errors.is_passing(kazoo.ConnectionLoss())
    assert errors.is_passing(kazoo.SessionExpiredError())
    assert not errors.is_passing(kazoo.ConnectionClosedError())
    assert not errors.is_passing(kazoo.NoAuthError())


@each(
    "error",
    [
        errors.not_open(),
        *(
            errors.translate(kind(), "Reading /x", CONFIG)
            for kind in (
                kazoo.BadArgumentsError,
                kazoo.MarshallingError,
                kazoo.UnimplementedError,
                kazoo.ConnectionClosedError,
            )
        ),
    ],
)
def test_what_the_program_does_wrong_is_not_retriable(error: ZKafkaError) -> None:
    """Errors of the program, such as using a client that is not open, are not retriable."""
    assert isinstance(error, ZooKeeperError)
    assert not error.retriable


def test_a_request_that_is_probably_too_large() -> None:
    """The error of a probably too large request says that neither reason nor outcome is certain."""
    error = errors.too_large(2_000_000, "A transaction at /consumers (9 operations)", CONFIG)
    assert "closed the connection at a request of some 2000000 bytes, probably because" in error.message
    assert "whether it was applied is unknown" in error.message
    assert not error.retriable


def test_no_session() -> None:
    """Without a session, the error quotes the troubles meanwhile. Servers without a quorum drop each connection."""
    ours = errors.no_session(KazooTimeoutError(), CONFIG, ["socket connection broken"])
    assert str(ours).startswith("[ZOOKEEPER_UNREACHABLE] No connection to ZooKeeper at zk1:2181")
    assert "6000 ms: socket connection broken; check" in ours.message
    assert "that the servers run and have a quorum, or raise" in ours.message
