"""Requests to the brokers of a cluster, repeated for each key until it is answered, refused, or out of time.

As in Java's ``AdminApiDriver``, a route finds the broker of each key, and looks it up again after errors that suggest
another broker. All brokers are asked at the same time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from pyspark_zkafka.brokers.errors import NO_COORDINATOR_CODES, broker_error, connection_error
from pyspark_zkafka.brokers.properties import are_known, require_files, shared_properties
from pyspark_zkafka.conditions import UNUSABLE_KAFKA_PROPERTY
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.error_codes import NONE, REFRESHING, RETRIABLE, ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition, host_port
from pyspark_zkafka.retries import Backoff, Deadline
from pyspark_zkafka.wire.client import Client, Question
from pyspark_zkafka.wire.connection import Connection
from pyspark_zkafka.wire.group_messages import (
    FIND_COORDINATOR,
    FIRST_OF_MANY_COORDINATORS,
    GROUP,
    FoundCoordinator,
    find_coordinators_request,
    read_coordinators,
)
from pyspark_zkafka.wire.metadata_messages import METADATA, Metadata, TopicMetadata, read_topics, topics_request
from pyspark_zkafka.wire.protocol import (
    Address,
    ConnectionClosed,
    ConnectionLost,
    LoginRefused,
    MalformedResponse,
    Reader,
    Request,
    TlsRefused,
    Unsupported,
)
from pyspark_zkafka.wire.settings import client_settings_of

if TYPE_CHECKING:
    from typing_extensions import Self

K = TypeVar("K", bound=Hashable)

_PAUSES = Backoff(0.05, 1.0)
_ENDING_PAUSES = Backoff(0.005, 1.0)
"""Pauses while a transaction ends. Brokers write its marker a few milliseconds after they have answered the commit."""
_PATIENCE_S = (3.0, 10.0)
"""How long `ask_any` waits for an answer: until an attempt has failed, and from then on, as brokers may be slow."""
_UNREACHABLE_AFTER_S = 5.0  # brokers may be starting
_SILENT_AFTER_S = 15.0
_REFUSED_AFTER_S = 2.0  # another broker may accept the client
_FIRST_ATTEMPT_S, _LONGEST_ATTEMPT_S = 5.0, 10.0
"""How long to wait for a broker before it is looked up again: in the first attempt, and in the longest."""
_LOOKS = 2
"""Number of requests after which a missing leader is an error. An election takes longer, but callers wait for it."""
_MOST_KEYS = 1_000
_PRODUCE, _FIRST_OF_FORMAT_1, _FIRST_OF_FORMAT_2 = 0, 2, 3
"""The key of Produce, and its versions."""
_ALL: tuple[str, ...] = ()


class _Answer(Protocol):
    """An answer to one key."""

    @property
    def error(self) -> int: ...


A = TypeVar("A", bound=_Answer)
R = TypeVar("R")


class BrokerDialect(NamedTuple):
    """The protocol of a broker. `record_format` is the newest that it knows: 0 before Kafka 0.10, 1 before 0.11, then 2.

    `release` is the release to name to librdkafka for brokers before 0.10, which have no ApiVersions. Empty for later ones.
    """

    record_format: int = 2
    release: str = ""


MODERN = BrokerDialect()


class Route(Protocol[K]):
    """Finds the brokers of keys."""

    def find(self, keys: Collection[K], deadline: Deadline) -> tuple[Mapping[K, Address], Mapping[K, int]]:
        """Find the address of each key's broker, or the key's error code. Raises ZKafkaError if no broker answers."""

    def forget(self, key: K) -> None:
        """Look the broker of a key up again in the next `find`."""


@dataclass(frozen=True, slots=True)
class Call(Generic[K, A]):
    """A request about keys: `make` encodes it for a connection, and `read` returns the answers in its response.

    `doing` describes the request for a key. Error codes in `expected` count as answers. A request has at most `most` keys.
    """

    doing: Callable[[K], str]
    make: Callable[[Connection, Sequence[K]], Request]
    read: Callable[[Reader, Sequence[K]], Mapping[K, A]]
    expected: Collection[int] = frozenset()
    most: int = _MOST_KEYS


class BrokerRequests:
    """Requests to brokers, in a ``with`` block. Not pickle-safe, and only for the process that created it.

    `dialect` describes the broker that answered the last call of `metadata`.

    Uses only the `properties` of the connection. ``socket.timeout.ms`` (30 s by default) limits each method that gets no
    deadline. ``with`` raises OptionError for a property that cannot be used, or a file that cannot be read.
    """

    def __init__(
        self, bootstrap_servers: str, properties: Mapping[str, Any], *, unreachable_after_s: float | None = None
    ) -> None:
        self._unreachable_after_s = _UNREACHABLE_AFTER_S if unreachable_after_s is None else unreachable_after_s
        self._properties = {**shared_properties(properties), "bootstrap.servers": bootstrap_servers}
        self._timeout_s = int(properties.get("socket.timeout.ms", 30_000)) / 1000
        self.servers = bootstrap_servers
        self._opened: Client | None = None
        self._is_answered = False
        self.dialect = MODERN

    @property
    def known_servers(self) -> str:
        """The bootstrap servers and the brokers of the last metadata. Safe to call from any thread."""
        brokers = {} if self._opened is None else self._opened.brokers
        present = [host_port(*address) for _, address in sorted(brokers.items())]
        return ",".join(dict.fromkeys(address for address in (*self.servers.split(","), *present) if address))

    def follow(self, bootstrap_servers: str) -> None:
        """Replace the bootstrap servers if one has an unknown address: all brokers that the client knows may be gone."""
        if are_known(bootstrap_servers, self.known_servers):
            return
        self.servers = self._properties["bootstrap.servers"] = bootstrap_servers
        self.client.settings, self.client.brokers = client_settings_of(self._properties), {}

    def __enter__(self) -> Self:
        require_files(self._properties)
        try:
            self._opened = Client(client_settings_of(self._properties)).__enter__()
        except Unsupported as why:
            raise UNUSABLE_KAFKA_PROPERTY(
                f"kafka.* has what connections to brokers do not support: {why}; correct it, or leave it out"
            ) from why
        return self

    def __exit__(self, *exc: object) -> None:
        client, self._opened = self._opened, None
        if client is not None:
            client.__exit__(*exc)

    @property
    def client(self) -> Client:
        """The connections."""
        if self._opened is None:
            raise RuntimeError("BrokerRequests is used outside of its with block")
        return self._opened

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """The deadline of a method that is called now. `timeout_s` can only shorten the time-out of a request."""
        return self.client.deadline(self._timeout_s if timeout_s is None else min(timeout_s, self._timeout_s))

    def metadata(self, topics: Collection[str] | None = _ALL, deadline: Deadline | None = None) -> Metadata:
        """Request metadata of topics, or of all with None, or of no topic. Raises ZKafkaError if no broker answers."""

        def read(response: Reader) -> Metadata:
            found = read_topics(response, topics)
            if not found.brokers:
                raise ConnectionLost("the broker has just started, and knows no other brokers yet")
            return found

        def make(connection: Connection) -> Request:
            produce = connection.newest(_PRODUCE)
            record_format = 2 if produce >= _FIRST_OF_FORMAT_2 else int(produce >= _FIRST_OF_FORMAT_1)
            self.dialect = BrokerDialect(record_format, connection.dialect)
            return topics_request(connection.version(METADATA), topics)

        found = self.ask_any("requesting metadata", make, read, deadline or self.deadline())
        self.client.brokers = {number: broker.address for number, broker in found.brokers.items()}
        return found

    def ask_any(
        self, doing: str, make: Callable[[Connection], Request], read: Callable[[Reader], R], deadline: Deadline
    ) -> R:
        """Ask one broker after the other until one answers.

        Raises before the deadline if brokers refuse the client for two seconds. Also raises if all brokers were tried and
        none could be reached within `unreachable_after_s` (5 s by default), or within 15 s if brokers stay silent.
        """
        doing = f"{doing} at {self.servers}"
        began, failed, refused_at = self.client.clock(), Counter[str](), None
        last: Exception = ConnectionLost("no broker answered in time")
        while True:
            # A silent broker must leave time for the next broker.
            servers = {*self.client.settings.servers, *self.client.brokers.values()}
            share_s = deadline.left_s / 2 if len(servers) > 1 else deadline.left_s
            patience_s = min(_PATIENCE_S[bool(failed)], max(share_s, 0.1))
            try:
                step = deadline.or_sooner(self.client.deadline(1.0))
                response = self.client.ask_any(make, step, patience_s, deadline)
                if response is not None:
                    self._is_answered = True
                    return read(response)
            except (ConnectionLost, LoginRefused, TlsRefused) as error:
                if not (failed and deadline.has_passed):  # the last attempt is cut short
                    last = error
                failed[str(error)] += 1
                if isinstance(error, (LoginRefused, TlsRefused)):
                    refused_at = self.client.clock() if refused_at is None else refused_at
            except Unsupported as error:
                raise connection_error(error, doing) from error
            now = self.client.clock()
            is_refused = refused_at is not None and now - refused_at >= _REFUSED_AFTER_S
            # A broker that is only slow gets more time with each attempt.
            is_slow = isinstance(last, ConnectionLost) and last.is_silent and not isinstance(last, ConnectionClosed)
            limit_s = max(self._unreachable_after_s, _SILENT_AFTER_S) if is_slow else self._unreachable_after_s
            are_unreachable = failed and not self.client.has_untried and now - began >= limit_s
            if is_refused or deadline.has_passed or are_unreachable:
                raise connection_error(last, doing, answered=self._is_answered) from last
            if failed:
                # Each attempt to log in counts towards a lock-out of the user.
                pause_s = _PAUSES.wait_s(sum(failed.values())) if refused_at is None else _REFUSED_AFTER_S
                time.sleep(min(pause_s, max(deadline.left_s, 0.0)))

    def each(
        self,
        keys: Collection[K],
        route: Route[K],
        call: Call[K, A],
        deadline: Deadline | None = None,
        *,
        repeats: bool = True,
    ) -> tuple[dict[K, A], dict[K, ZKafkaError]]:
        """Return the answer to each key, or its error. Blocks until the last key is settled, or until the deadline.

        Without `repeats`, asks about each key once.
        """
        settling = _Settling(self, route, call, deadline or self.deadline())
        settling.run(list(dict.fromkeys(keys)), repeats=repeats)
        return settling.answers, settling.failed


class _Settling(Generic[K, A]):
    """Repeats a call for the keys that are not settled yet."""

    def __init__(self, requests: BrokerRequests, route: Route[K], call: Call[K, A], deadline: Deadline) -> None:
        self._requests = requests
        self._route = route
        self._call = call
        self._deadline = deadline
        self._looks: Counter[K] = Counter()
        self._unstable: set[K] = set()  # keys whose last answer was that a transaction is open
        self.answers: dict[K, A] = {}
        self.failed: dict[K, ZKafkaError] = {}

    def run(self, left: list[K], *, repeats: bool) -> None:
        rounds, attempt_s = 0, _FIRST_ATTEMPT_S
        while left:
            try:
                addresses, without = self._route.find(left, self._deadline)
            except ZKafkaError as error:
                self.failed = {**dict.fromkeys(left, error), **self.failed}  # a key keeps its first error
                return
            again = [key for key in left if key in without and self._may_pass(key, without[key])]
            attempt = self._deadline.or_sooner(self._requests.client.deadline(attempt_s)) if repeats else self._deadline
            again += self._ask({key: addresses[key] for key in left if key in addresses}, attempt)
            attempt_s = min(2 * attempt_s, _LONGEST_ATTEMPT_S)
            if not again or not repeats:
                return
            rounds += 1
            pauses = _ENDING_PAUSES if self._unstable.issuperset(again) else _PAUSES
            time.sleep(min(pauses.wait_s(rounds), max(self._deadline.left_s, 0.0)))
            if self._deadline.has_passed:
                return
            left = again

    def _ask(self, addresses: Mapping[K, Address], deadline: Deadline) -> list[K]:
        """Send the requests, and note the outcomes until the deadline. Returns the keys to ask about again."""
        by_address: dict[Address, list[K]] = {}
        for key, address in addresses.items():
            by_address.setdefault(address, []).append(key)
        most = self._call.most
        parts = [(a, keys[n : n + most]) for a, keys in by_address.items() for n in range(0, len(keys), most)]
        questions = [self._question(address, keys) for address, keys in parts]
        again: list[K] = []
        outcomes = self._requests.client.ask_all(questions, deadline)
        for (address, keys), outcome in zip(parts, outcomes, strict=True):
            again += self._lose(address, keys, outcome) if isinstance(outcome, Exception) else self._settle(keys, outcome)
        return again

    def _lose(self, address: Address, keys: Sequence[K], error: Exception) -> list[K]:
        """Note an error of a connection; return the keys to ask about again."""
        is_lost = isinstance(error, ConnectionLost) and not isinstance(error, MalformedResponse)
        self._unstable.difference_update(keys)
        for key in keys:
            if not (is_lost and key in self.failed and self._deadline.has_passed):  # the last attempt is cut short
                self.failed[key] = connection_error(error, f"{self._call.doing(key)} at {host_port(*address)}")
                self.failed[key].__cause__ = error
            if is_lost:
                self._route.forget(key)
        return list(keys) if is_lost else []

    def _settle(self, keys: Sequence[K], outcome: Mapping[K, A]) -> list[K]:
        """Note the outcomes of keys; return the keys to ask about again."""
        expected = {NONE, *self._call.expected}
        settled = {key: outcome[key] for key in keys if key in outcome and outcome[key].error in expected}
        self.answers |= settled
        if self.failed:
            self.failed = {key: error for key, error in self.failed.items() if key not in settled}
        again: list[K] = []
        for key in keys if len(settled) < len(keys) else ():
            if key not in outcome:
                self.failed[key] = connection_error(MalformedResponse(f"the response lacks {key}"), self._call.doing(key))
            elif key not in settled and self._may_pass(key, outcome[key].error):
                again.append(key)
        return again

    def _question(self, address: Address, keys: Sequence[K]) -> Question[Mapping[K, A]]:
        return Question(
            address, lambda connection: self._call.make(connection, keys), lambda response: self._call.read(response, keys)
        )

    def _may_pass(self, key: K, code: int) -> bool:
        """Note an error of a key; return True if it may pass."""
        self.failed[key] = broker_error(code, self._call.doing(key))
        if code in REFRESHING or code in NO_COORDINATOR_CODES or code == ErrorCode.NOT_CONTROLLER:
            self._route.forget(key)
        self._looks[key] += 1
        (self._unstable.add if code == ErrorCode.UNSTABLE_OFFSET_COMMIT else self._unstable.discard)(key)
        return code in RETRIABLE and (code not in REFRESHING or self._looks[key] < _LOOKS)


class CoordinatorRoute:
    """The coordinators of groups."""

    def __init__(self, requests: BrokerRequests) -> None:
        self._requests = requests
        self._addresses: dict[str, Address] = {}

    def find(self, keys: Collection[str], deadline: Deadline) -> tuple[Mapping[str, Address], Mapping[str, int]]:
        """See `Route`. Blocks for one request for 1,000 groups, or before Kafka 3.0 for one for each group."""
        errors = dict.fromkeys([group for group in keys if not _fits(group)], int(ErrorCode.INVALID_GROUP_ID))
        left = [group for group in keys if group not in self._addresses and group not in errors]
        while left:
            asked: list[str] = []

            def make(connection: Connection, left: Sequence[str] = left, asked: list[str] = asked) -> Request:
                version = connection.version(FIND_COORDINATOR)
                asked[:] = left[: _MOST_KEYS if version >= FIRST_OF_MANY_COORDINATORS else 1]
                return find_coordinators_request(version, GROUP, asked)

            def read(response: Reader, asked: Sequence[str] = asked) -> Mapping[str, FoundCoordinator]:
                return read_coordinators(response, asked)

            try:
                found = self._requests.ask_any("looking for coordinators", make, read, deadline)
            except ZKafkaError:
                if not self._addresses.keys() & set(keys):
                    raise
                errors |= dict.fromkeys(left, int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
                break
            for group in asked:
                if group not in found:
                    errors[group] = ErrorCode.UNKNOWN_SERVER_ERROR
                elif found[group].error != NONE:
                    errors[group] = found[group].error
                else:
                    self._addresses[group] = found[group].address
            left = left[len(asked) :]
        return {group: self._addresses[group] for group in keys if group in self._addresses}, errors

    def forget(self, key: str) -> None:
        """See `Route`."""
        self._addresses.pop(key, None)


def _fits(group: str) -> bool:
    """True for a name that a request can have: at most 32,767 bytes of UTF-8."""
    try:
        return len(group.encode()) < 2**15
    except UnicodeEncodeError:  # bytes of a command line that are not UTF-8
        return False


class LeaderRoute:
    """The leaders of partitions."""

    def __init__(self, requests: BrokerRequests) -> None:
        self._requests = requests
        self._topics: dict[str, TopicMetadata] = {}

    def learn(self, topics: Mapping[str, TopicMetadata]) -> None:
        """Note the metadata of topics."""
        self._topics |= topics

    def forget_topics(self, topics: Collection[str]) -> None:
        """Find the leaders of topics again."""
        for topic in topics:
            self._topics.pop(topic, None)

    def find(
        self, keys: Collection[TopicPartition], deadline: Deadline
    ) -> tuple[Mapping[TopicPartition, Address], Mapping[TopicPartition, int]]:
        """See `Route`. Blocks for one request if the leaders of a topic are not known."""
        unknown = {tp.topic for tp in keys} - self._topics.keys()
        if unknown:
            self.learn(self._requests.metadata(sorted(unknown), deadline).topics)
        found, errors, brokers = dict[TopicPartition, Address](), dict[TopicPartition, int](), self._requests.client.brokers
        for tp in keys:
            topic = self._topics[tp.topic]
            partition = topic.partitions.get(tp.partition)
            if topic.error != NONE or partition is None:
                errors[tp] = topic.error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif partition.leader not in brokers:
                errors[tp] = ErrorCode.LEADER_NOT_AVAILABLE
            else:
                found[tp] = brokers[partition.leader]
        return found, errors

    def forget(self, key: TopicPartition) -> None:
        """See `Route`."""
        self._topics.pop(key.topic, None)


class ControllerRoute:
    """The controller, for any key. In KRaft mode, brokers name any broker, which passes requests on to the controller."""

    def __init__(self, requests: BrokerRequests) -> None:
        self._requests = requests
        self._address: Address | None = None

    def find(self, keys: Collection[str], deadline: Deadline) -> tuple[Mapping[str, Address], Mapping[str, int]]:
        """See `Route`. Blocks for one request if the controller is not known."""
        if self._address is None:
            found = self._requests.metadata(_ALL, deadline)
            if found.controller is None or found.controller not in found.brokers:
                return {}, dict.fromkeys(keys, int(ErrorCode.NOT_CONTROLLER))
            self._address = found.brokers[found.controller].address
        return dict.fromkeys(keys, self._address), {}

    def forget(self, key: str) -> None:
        """See `Route`."""
        self._address = None


class BrokerRoute:
    """Brokers by their ids."""

    def __init__(self, requests: BrokerRequests) -> None:
        self._requests = requests
        self._is_outdated = False

    def find(self, keys: Collection[int], deadline: Deadline) -> tuple[Mapping[int, Address], Mapping[int, int]]:
        """See `Route`. Blocks for one request if a broker is not known, or has not answered."""
        if self._is_outdated or not self._requests.client.brokers.keys() >= set(keys):
            self._requests.metadata(_ALL, deadline)
            self._is_outdated = False
        known = self._requests.client.brokers
        missing = dict.fromkeys([key for key in keys if key not in known], int(ErrorCode.BROKER_NOT_AVAILABLE))
        return {key: known[key] for key in keys if key in known}, missing

    def forget(self, key: int) -> None:
        """See `Route`."""
        self._is_outdated = True
