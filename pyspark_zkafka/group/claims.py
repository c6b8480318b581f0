"""A member's claims on partitions: the ephemeral znodes ``/consumers/G/owners/T/P``, created together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark_zkafka.errors import GroupContended
from pyspark_zkafka.group.ownership import is_claim_of, owner_parents
from pyspark_zkafka.protocol.model import Claim, ClaimOwner, TopicPartition, session_text
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.zookeeper.connection import Results, Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Check, Create, Delete, Operation, SetData, pieces

__all__ = ["Blocker", "Claims"]

_ATTEMPTS = 10
_KEPT_BYTES = 64


@dataclass(frozen=True, slots=True)
class Blocker:
    """Another owner of a partition that the member is to claim."""

    partition: TopicPartition
    thread: str
    session: int

    def __str__(self) -> str:
        return f"{self.partition} is owned by {self.thread or 'a nameless owner'} (session {session_text(self.session)})"


class Claims:
    """The claims of one session of a member.

    Not thread-safe, except for `held`, which is replaced and never changed. Each call blocks for a few round trips.

    Parameters
    ----------
    client : ZooKeeperConnection
        Open.
    """

    def __init__(self, client: ZooKeeperConnection, group: str) -> None:
        self._client = client
        self._group = group
        self._generation = 0
        self._in_doubt: set[TopicPartition] = set()
        self.held: Mapping[TopicPartition, Claim] = {}

    def forget(self) -> None:
        """Drop all claims: the session has ended, and its claims with it.

        The next session may have made some of them before the end of the last one was noticed: `verify` finds those.
        """
        self._in_doubt |= self.held.keys()
        self.held = {}

    def take(self, wanted: Mapping[TopicPartition, str], owner: ClaimOwner) -> list[Blocker]:
        """Claim partitions for threads of the member, all or none of them.

        A claim that an earlier session of the same member left behind is replaced. A claim of this session that names
        another thread is changed in place, so that no other member can claim the partition meanwhile.

        Returns
        -------
        list of Blocker
            The other owners; empty when all are claimed.
        """
        taken: list[TopicPartition] = []
        for chunk in self._pieces(wanted, lambda tp: self._taking(tp, wanted[tp], owner)):
            self._in_doubt.update(chunk)
            blockers = self._take({tp: wanted[tp] for tp in chunk}, owner)
            if blockers:
                self._in_doubt.difference_update(chunk)
                self.release(taken, owner)
                return blockers
            taken += chunk
            self._add({tp: wanted[tp] for tp in chunk})
        return []

    def release(self, partitions: Collection[TopicPartition], owner: ClaimOwner) -> None:
        """Delete the claims that are still the session's own; they leave `held` before they are deleted."""
        for chunk in self._pieces(partitions, self._releasing):
            gone = set(chunk)
            self._in_doubt |= gone
            self.held = {tp: claim for tp, claim in self.held.items() if tp not in gone}
            self._release(chunk, owner)
            self._in_doubt -= gone

    def verify(self, owner: ClaimOwner) -> list[TopicPartition]:
        """Check that the claims exist; those that do not leave `held`, and are returned.

        Claims whose creation or deletion received no answer are resolved, too.
        """
        asked = sorted({*self.held, *self._in_doubt})
        found = self._client.get_many(self._path(tp) for tp in asked)
        ours = {tp for tp in asked if is_claim_of(found.get(self._path(tp)), owner)}
        gained = {tp: _thread(found[self._path(tp)]) for tp in ours - self.held.keys()}
        lost = sorted(self.held.keys() - ours)
        self.held = {tp: claim for tp, claim in self.held.items() if tp in ours}
        self._in_doubt = set()
        self._add(gained)
        return lost

    def _pieces(
        self, partitions: Collection[TopicPartition], operations_of: Callable[[TopicPartition], Iterable[Operation]]
    ) -> Iterator[list[TopicPartition]]:
        return pieces(sorted(partitions), operations_of, self._client.config.chroot)

    def _taking(self, partition: TopicPartition, thread: str, owner: ClaimOwner) -> Iterator[Operation]:
        """The most operations that a claim may need: with missing parents, and another claim to replace."""
        yield from self._parents([partition], Results())
        yield Delete(self._path(partition))
        yield from self._change(partition, thread, None, owner)

    def _releasing(self, partition: TopicPartition) -> Iterator[Operation]:
        yield from (Check(path) for path in owner_parents(self._group, [partition])[1:])
        yield Delete(self._path(partition))

    def _add(self, threads: Mapping[TopicPartition, str]) -> None:
        self._in_doubt.difference_update(threads)
        self._generation += 1
        fresh = {tp: Claim(thread, self._generation) for tp, thread in threads.items()}
        renamed = {tp: replace(self.held[tp], thread=claim.thread) for tp, claim in fresh.items() if tp in self.held}
        self.held = {**self.held, **fresh, **renamed}

    def _take(self, wanted: Mapping[TopicPartition, str], owner: ClaimOwner) -> list[Blocker]:
        for _ in range(_ATTEMPTS):
            found = self._read(wanted)
            nodes = {tp: found.nodes.get(self._path(tp)) for tp in wanted}
            blockers = [_blocker(tp, node) for tp, node in nodes.items() if node is not None and not _is_ours(node, owner)]
            if blockers:
                return blockers
            changes = [o for tp, thread in wanted.items() for o in self._change(tp, thread, nodes[tp], owner)]
            if not changes or self._client.transaction([*self._parents(wanted, found), *changes]) is None:
                return []
        raise _contended(self._group)

    def _read(self, partitions: Collection[TopicPartition]) -> Results:
        above = owner_parents(self._group, partitions)
        return self._client.ask(exists=self._group_parents, get=[*above, *(self._path(tp) for tp in partitions)])

    def _parents(self, partitions: Iterable[TopicPartition], found: Results) -> Iterator[Operation]:
        """Create missing parents; write each ``owners/T``, which changes the version that proofs of ownership check."""
        above = owner_parents(self._group, partitions)
        yield from (Create(path, None) for path in self._group_parents if path not in found.stats)
        yield from (Create(path, None) for path in above if path not in found.nodes)
        yield from (SetData(path, _kept(found.nodes[path].data)) for path in above[1:] if path in found.nodes)

    def _change(self, partition: TopicPartition, thread: str, node: Znode | None, owner: ClaimOwner) -> Iterator[Operation]:
        path, data = self._path(partition), group_znodes.encode_owner(thread)
        if is_claim_of(node, owner):
            if node is not None and node.data != data:
                yield SetData(path, data, node.stat.version)
            return
        if node is not None:
            yield Delete(path, node.stat.version)
        yield Create(path, data, ephemeral=True)
        yield SetData(path, data, 0)  # version 1: see OwnedBy

    def _release(self, partitions: Sequence[TopicPartition], owner: ClaimOwner) -> None:
        for _ in range(_ATTEMPTS):
            above = owner_parents(self._group, partitions)[1:]
            found = self._client.ask(exists=above, get=[self._path(tp) for tp in partitions])
            ours = {path: node for path, node in found.nodes.items() if is_claim_of(node, owner)}
            if not ours:
                return
            checks = [Check(path, found.stats[path].version) for path in above if path in found.stats]
            deletes = [Delete(path, node.stat.version) for path, node in ours.items()]
            if self._client.transaction([*checks, *deletes]) is None:
                return
        raise _contended(self._group)

    @property
    def _group_parents(self) -> list[str]:
        return [group_znodes.CONSUMERS, group_znodes.group_path(self._group)]

    def _path(self, partition: TopicPartition) -> str:
        return group_znodes.owner_path(self._group, partition)


def _is_ours(node: Znode, owner: ClaimOwner) -> bool:
    """True if the claim is the member's own, of this session or an earlier one: only this package writes claims twice."""
    consumer = group_znodes.consumer_of_thread(_thread(node))
    return consumer == owner.consumer and node.stat.version > 0


def _blocker(partition: TopicPartition, node: Znode) -> Blocker:
    return Blocker(partition, _thread(node), node.stat.ephemeral_owner)


def _thread(node: Znode) -> str:
    """The thread that a claim names; any client may have written it."""
    return (node.data or b"").decode("utf-8", "replace")


def _kept(data: bytes | None) -> bytes | None:
    """The data of a parent to write again: unchanged, or None if too large for the transaction; consumers write none."""
    return None if data is not None and len(data) > _KEPT_BYTES else data


def _contended(group: str) -> GroupContended:
    return GroupContended(
        "CLAIMS_CONTENDED",
        f"The claims of group {group} changed {_ATTEMPTS} times while they were read; try again, "
        "and if that does not help, find the client that deletes and creates the znodes of its owners",
    )
