"""A member's claims on partitions.

A claim is the ephemeral znode ``/consumers/G/owners/T/P``. A member creates all of its claims or none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark_zkafka.conditions import CLAIMS_CONTENDED
from pyspark_zkafka.errors import GroupContended
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition, session_text
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.groups import owner_parents
from pyspark_zkafka.zookeeper.connection import Results, Znode, ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Check, Create, Delete, Operation, SetData, pieces

_ATTEMPTS = 10
_KEPT_BYTES = 64


def claim_paths(group: str, partitions: Iterable[TopicPartition]) -> dict[str, TopicPartition]:
    """The partitions, in their order, by the paths of their claims."""
    return {group_znodes.owner_path(group, tp): tp for tp in partitions}


def thread_of(node: Znode) -> str:
    """The thread that a claim names. Undecodable bytes are replaced: any client may have written them."""
    return (node.data or b"").decode("utf-8", "replace")


def is_claim_by(node: Znode, consumer: str) -> bool:
    """True if the znode is a member's claim, of any session.

    Members of this package write each claim twice. The version of a JVM consumer's claim stays 0.
    """
    return node.stat.version > 0 and group_znodes.consumer_of_thread(thread_of(node)) == consumer


def is_claim_of(node: Znode | None, owner: ClaimOwner) -> bool:
    """True if the znode is a claim of the member's present session."""
    return node is not None and node.stat.ephemeral_owner == owner.session and is_claim_by(node, owner.consumer)


@dataclass(frozen=True, slots=True)
class Blocker:
    """Another owner of a partition that is assigned to the member."""

    partition: TopicPartition
    thread: str
    session: int

    def __str__(self) -> str:
        return f"{self.partition} is owned by {self.thread or 'a nameless owner'} (session {session_text(self.session)})"


class Claims:
    """The claims of a member's session. The client is open.

    Not thread-safe, except for `owned`, which is replaced and never modified. Calls block for a few round trips.
    """

    def __init__(self, client: ZooKeeperConnection, group: str) -> None:
        self._client = client
        self._group = group
        self._sequence = 0
        self._in_doubt: set[TopicPartition] = set()
        self.owned: Mapping[TopicPartition, Claim] = {}

    def forget(self) -> None:
        """Forget all claims after the end of their session.

        The next session may have made some claims again before the end was noticed: `verify` finds these claims.
        """
        self._in_doubt |= self.owned.keys()
        self.owned = {}

    def claim(self, threads: Mapping[TopicPartition, str], owner: ClaimOwner) -> list[Blocker]:
        """Claim all partitions for threads of the member, or no partition if other members own some. Return these owners.

        Claims of the member's earlier sessions are replaced. Claims of this session for another thread are changed in
        place: no other member can claim the partition meanwhile.
        """
        claimed, held = list[TopicPartition](), self.owned.keys()
        chroot = self._client.config.chroot
        for chunk in pieces(sorted(threads), lambda tp: self._claiming(tp, threads[tp], owner), chroot):
            self._in_doubt.update(chunk)
            blockers = self._claim({tp: threads[tp] for tp in chunk}, owner)
            if blockers:
                self._in_doubt.difference_update(chunk)
                self.release([tp for tp in claimed if tp not in held], owner)
                return blockers
            claimed += chunk
            self._add({tp: threads[tp] for tp in chunk})
        return []

    def release(self, partitions: Collection[TopicPartition], owner: ClaimOwner) -> None:
        """Remove partitions from `owned`, then delete the claims that are still the session's own."""
        for chunk in pieces(sorted(partitions), self._releasing, self._client.config.chroot):
            released = set(chunk)
            self._in_doubt |= released
            self.owned = {tp: claim for tp, claim in self.owned.items() if tp not in released}
            self._release(chunk, owner)
            self._in_doubt -= released

    def verify(self, owner: ClaimOwner) -> list[TopicPartition]:
        """Remove partitions whose claims are gone from `owned`, and return them.

        Also resolves creations and deletions that received no answer.
        """
        paths = claim_paths(self._group, sorted({*self.owned, *self._in_doubt}))
        nodes = {paths[path]: node for path, node in self._client.get_many(paths).items() if is_claim_of(node, owner)}
        added = {tp: thread_of(node) for tp, node in nodes.items() if tp not in self.owned}
        lost = sorted(self.owned.keys() - nodes.keys())
        self.owned = {tp: claim for tp, claim in self.owned.items() if tp in nodes}
        self._in_doubt = set()
        self._add(added)
        return lost

    def _claiming(self, partition: TopicPartition, thread: str, owner: ClaimOwner) -> Iterator[Operation]:
        """All operations that a claim needs if its parents are missing and it replaces another claim."""
        yield from self._parents([partition], Results())
        yield Delete(self._path(partition))
        yield from self._change(partition, thread, None, owner)

    def _releasing(self, partition: TopicPartition) -> Iterator[Operation]:
        yield from (Check(path) for path in owner_parents(self._group, [partition])[1:])
        yield Delete(self._path(partition))

    def _add(self, threads: Mapping[TopicPartition, str]) -> None:
        self._in_doubt.difference_update(threads)
        self._sequence += 1
        before = {tp: self.owned[tp].sequence for tp in threads if tp in self.owned}
        added = {tp: Claim(thread, before.get(tp, self._sequence)) for tp, thread in threads.items()}
        self.owned = {**self.owned, **added}

    def _claim(self, threads: Mapping[TopicPartition, str], owner: ClaimOwner) -> list[Blocker]:
        above = owner_parents(self._group, threads)
        for _ in range(_ATTEMPTS):
            found = self._client.ask(exists=self._group_parents, get=[*above, *map(self._path, threads)])
            nodes = {tp: node for tp in threads if (node := found.nodes.get(self._path(tp))) is not None}
            others = {tp: node for tp, node in nodes.items() if not is_claim_by(node, owner.consumer)}
            if others:
                return [Blocker(tp, thread_of(node), node.stat.ephemeral_owner) for tp, node in others.items()]
            changes = [o for tp, thread in threads.items() for o in self._change(tp, thread, nodes.get(tp), owner)]
            if not changes or self._client.transact([*self._parents(threads, found), *changes]).conflict is None:
                return []
        raise _contended(self._group)

    def _parents(self, partitions: Iterable[TopicPartition], found: Results) -> Iterator[Operation]:
        """Create missing parents. Write each ``owners/T``: proofs of ownership check its version."""
        above = owner_parents(self._group, partitions)
        yield from (Create(path, None) for path in self._group_parents if path not in found.stats)
        yield from (Create(path, None) for path in above if path not in found.nodes)
        yield from (SetData(path, _kept(found.nodes[path].data)) for path in above[1:] if path in found.nodes)

    def _change(self, partition: TopicPartition, thread: str, node: Znode | None, owner: ClaimOwner) -> Iterator[Operation]:
        path, data = self._path(partition), group_znodes.encode_owner(thread)
        if node is not None and is_claim_of(node, owner):
            if node.data != data:
                yield SetData(path, data, node.stat.version)
            return
        if node is not None:
            yield Delete(path, node.stat.version)
        yield Create(path, data, ephemeral=True)
        yield SetData(path, data, 0)  # version 1: see commits.OwnedBy

    def _release(self, partitions: Sequence[TopicPartition], owner: ClaimOwner) -> None:
        above = owner_parents(self._group, partitions)[1:]
        for _ in range(_ATTEMPTS):
            found = self._client.ask(exists=above, get=map(self._path, partitions))
            ours = {path: node for path, node in found.nodes.items() if is_claim_of(node, owner)}
            if not ours:
                return
            checks = [Check(path, found.stats[path].version) for path in above if path in found.stats]
            deletes = [Delete(path, node.stat.version) for path, node in ours.items()]
            if self._client.transact([*checks, *deletes]).conflict is None:
                return
        raise _contended(self._group)

    @property
    def _group_parents(self) -> list[str]:
        return [group_znodes.CONSUMERS, group_znodes.group_path(self._group)]

    def _path(self, partition: TopicPartition) -> str:
        return group_znodes.owner_path(self._group, partition)


def _kept(data: bytes | None) -> bytes | None:
    """The data of a parent, or None if too large for the transaction. Consumers write no data."""
    return None if data is not None and len(data) > _KEPT_BYTES else data


def _contended(group: str) -> GroupContended:
    return CLAIMS_CONTENDED(
        f"The claims of group {group} changed {_ATTEMPTS} times while they were read; try again, "
        "and if that does not help, find the client that deletes and creates the znodes of its owners",
    )
