"""Znodes with an ACL."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from kazoo.security import ACL, make_acl, make_digest_acl

from pyspark_zkafka.errors import OptionError, ZooKeeperRefused
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.testing import LocalCluster
from tests.support.security import SECRET, TEN, WRONG, Options, fails_soon, read_values

if TYPE_CHECKING:
    from kazoo.client import KazooClient


def private_copy(fortress: LocalCluster, name: str, acl: ACL) -> str:
    """Return the connect string of a copy of the cluster's znodes under an ACL, with the same brokers."""
    with fortress.zookeeper() as client:
        source, client.chroot = client.chroot, ""
        nodes = dict(_below(client, source, "/brokers"))
        for path, data in {"": b"", **nodes}.items():
            client.create(f"/{name}{path}", data)
        for path in ["", *nodes]:
            client.set_acls(f"/{name}{path}", [acl])
    return f"{fortress.zookeeper_connect.partition('/')[0]}/{name}"


def _below(client: KazooClient, prefix: str, path: str) -> Iterator[tuple[str, bytes]]:
    yield path, client.get(prefix + path)[0]
    for child in client.get_children(prefix + path):
        yield from _below(client, prefix, f"{path}/{child}")


@pytest.fixture(scope="module")
def digest(fortress: LocalCluster) -> Options:
    """Options for znodes that only the digest user alice may read, without her password."""
    return {"zookeeper.connect": private_copy(fortress, "digest", make_digest_acl("alice", SECRET, all=True))}


@pytest.fixture(scope="module")
def sasl(fortress: LocalCluster) -> Options:
    """Options for znodes that only the SASL user alice may read, without her password."""
    return {"zookeeper.connect": private_copy(fortress, "sasl", make_acl("sasl", "alice", all=True))}


@pytest.mark.usefixtures("fortress")  # by name: tests that request it at run time are not seen to share it
class TestAcl:
    """Znodes that only one user may read."""

    @pytest.mark.parametrize("scheme", ["digest", "sasl"])
    def test_without(self, request: pytest.FixtureRequest, scheme: str) -> None:
        """Without zookeeper.auth a plan fails, and the error names the znode and the option."""
        options = parse_read({**request.getfixturevalue(scheme), "subscribe": "orders"})
        match = rf"/{scheme}\S* was refused: an ACL forbids it, asked anonymously.*set zookeeper\.auth"
        fails_soon(ZooKeeperRefused, match, lambda: plan_batch(options), within_s=3)

    @pytest.mark.parametrize(("scheme", "auth"), [("digest", "digest"), ("sasl", "sasl:DIGEST-MD5")])
    def test_right(self, request: pytest.FixtureRequest, scheme: str, auth: str, shown: Callable[..., None]) -> None:
        """With the right password, a read works as without an ACL."""
        options = {**request.getfixturevalue(scheme), "zookeeper.auth": f"{auth}:alice:{SECRET}", "subscribe": "orders"}
        assert read_values(options) == TEN
        shown(parse_read(options), parse_read(options).connection.zookeeper)

    def test_wrong_digest(self, digest: Options, shown: Callable[..., None]) -> None:
        """A wrong digest password authenticates as a user that the ACL refuses."""
        options = parse_read({**digest, "zookeeper.auth": f"digest:alice:{WRONG}", "subscribe": "orders"})
        match = r"/digest\S* was refused: an ACL forbids it, asked as the digest user of zookeeper\.auth.*check its user"
        shown(fails_soon(ZooKeeperRefused, match, lambda: plan_batch(options), within_s=3), options)

    def test_wrong_sasl(self, sasl: Options, shown: Callable[..., None]) -> None:
        """A wrong SASL password gets no session."""
        options = parse_read({**sasl, "zookeeper.auth": f"sasl:DIGEST-MD5:alice:{WRONG}", "subscribe": "orders"})
        match = r"does not accept the credentials.*check zookeeper\.auth"
        shown(fails_soon(ZooKeeperRefused, match, lambda: plan_batch(options)), options)

    def test_sasl_needs_its_extra(self, sasl: Options, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without pure-sasl, the error says what to install."""
        monkeypatch.setitem(sys.modules, "puresasl", None)
        options = parse_read({**sasl, "zookeeper.auth": f"sasl:DIGEST-MD5:alice:{SECRET}", "subscribe": "orders"})
        match = r"SASL_MISSING.*pip install 'pyspark-zkafka\[sasl\]'"
        fails_soon(OptionError, match, lambda: plan_batch(options), within_s=3)
