"""Requests about keys to scripted brokers: routes, repetitions, errors of single keys, deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest

from pyspark_zkafka.brokers.errors import UNREACHABLE
from pyspark_zkafka.brokers.requests import BrokerRequests, BrokerRoute, Call, CoordinatorRoute
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, NoLeader, OptionError, ZKafkaError
from pyspark_zkafka.model.error_codes import ErrorCode
from pyspark_zkafka.testing.processes import LOOPBACK
from pyspark_zkafka.wire.connection_messages import SASL_AUTHENTICATE, SASL_HANDSHAKE
from pyspark_zkafka.wire.group_messages import FIND_COORDINATOR
from pyspark_zkafka.wire.metadata_messages import METADATA
from pyspark_zkafka.wire.protocol import Address, Api, LoginRefused, Reader, Request, array, int16, nullable_bytes, string
from tests.support.scripted_broker import Script, ScriptedBroker, answered
from tests.support.scripted_groups import SILENT, Answers, api_ranges, coordinator, coordinators, metadata, names_in

ASK = Api("Ask", 60, 0, 0, 9)
RANGES = api_ranges((ASK, 0), (METADATA, 1), (FIND_COORDINATOR, 4))
NOWHERE = (LOOPBACK, 1)
LIMIT_S = 20.0

Codes = Mapping[str, int]


class Answer(NamedTuple):
    """The answer to one key."""

    error: int


def asking(most: int = 1_000, expected: Collection[int] = ()) -> Call[str, Answer]:
    """Return a request whose response has the error of each key."""

    def read(response: Reader, keys: object) -> dict[str, Answer]:
        return dict(response.array(lambda: (response.required_string(), Answer(response.int16()))))

    return Call(
        lambda key: f"asking about {key}",
        lambda connection, keys: Request(ASK, connection.version(ASK), array(list(map(string, keys)))),
        read,
        expected,
        most,
    )


def codes(answers: Codes) -> bytes:
    """Return the body of a response."""
    return array([string(key) + int16(code) for key, code in answers.items()])


class Table:
    """A route by a table; `forget` moves a key to its next place, if it has one."""

    def __init__(self, **places: tuple[Address | int, ...]) -> None:
        self.places = {key: list(found) for key, found in places.items()}
        self.forgotten: list[str] = []

    def find(self, keys: Collection[str], deadline: object) -> tuple[dict[str, Address], dict[str, int]]:
        """Return the first place of each key."""
        found = {key: self.places[key][0] for key in keys}
        errors = {key: place for key, place in found.items() if isinstance(place, int)}
        return {key: place for key, place in found.items() if not isinstance(place, int)}, errors

    def forget(self, key: str) -> None:
        """Use the next place."""
        self.forgotten.append(key)
        if len(self.places[key]) > 1:
            del self.places[key][0]


class Cluster:
    """Brokers in this process, and requests to them."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened

    def broker(self, ask: Callable[[list[str]], Codes | None]) -> Address:
        """Open a broker that answers each request with the errors of its keys, or closes the connection for None."""

        def answer(request: Reader) -> bytes | None:
            found = ask(names_in(request))
            return None if found is None else codes(found)

        return self.scripted(Answers({ASK: answer})).address

    def scripted(self, script: Script, ranges: Mapping[int, tuple[int, int]] = RANGES) -> ScriptedBroker:
        """Open a broker."""
        return self._opened.enter_context(ScriptedBroker(script, ranges))

    def requests(self, *servers: Address, timeout_s: float = LIMIT_S, **kafka: str) -> BrokerRequests:
        """Open requests to these bootstrap servers."""
        properties = {name.replace("_", "."): value for name, value in kafka.items()}
        addresses = ",".join(f"{host}:{port}" for host, port in servers or [NOWHERE])
        timeout = {"socket.timeout.ms": int(timeout_s * 1000)}
        return self._opened.enter_context(BrokerRequests(addresses, {**timeout, **properties}))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster without brokers yet."""
    with ExitStack() as opened:
        yield Cluster(opened)


def refusing(*refusals: Codes) -> tuple[Callable[[list[str]], Codes], list[list[str]]]:
    """Return a function that refuses keys in each of the first requests, and the keys of all requests."""
    left, asked = list(refusals), list[list[str]]()

    def ask(keys: list[str]) -> Codes:
        asked.append(keys)
        return {**dict.fromkeys(keys, 0), **(left.pop(0) if left else {})}

    return ask, asked


@contextmanager
def takes(least_s: float, most_s: float) -> Iterator[None]:
    """Check the duration of a block."""
    began = time.monotonic()
    yield
    assert least_s <= time.monotonic() - began < most_s


def error_of_one(cluster: Cluster, bad: Address, timeout_s: float = LIMIT_S) -> ZKafkaError:
    """Ask about one key at a bad broker, and about another at a good one, which answers. Return the error of the first."""
    requests, (ask, _) = cluster.requests(), refusing()
    table = Table(a=(bad,), b=(cluster.broker(ask),))
    found, failed = requests.each(["a", "b"], table, asking(), requests.deadline(timeout_s))
    assert found == {"b": Answer(0)}
    assert list(failed) == ["a"]
    return failed["a"]


def test_error_that_passes(cluster: Cluster) -> None:
    """A key with a retriable error is asked about again, without the other keys, at the same broker."""
    ask, asked = refusing({"b": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}, {"b": ErrorCode.REQUEST_TIMED_OUT})
    place = cluster.broker(ask)
    found, failed = cluster.requests().each(["a", "b", "a"], Table(a=(place,), b=(place,)), asking())
    assert found == {"a": Answer(0), "b": Answer(0)}
    assert failed == {}
    assert asked == [["a", "b"], ["b"], ["b"]]


def test_error_of_one_key(cluster: Cluster) -> None:
    """An error that cannot pass fails its key after one request."""
    ask, asked = refusing({"b": ErrorCode.GROUP_AUTHORIZATION_FAILED})
    place = cluster.broker(ask)
    found, failed = cluster.requests().each(["a", "b"], Table(a=(place,), b=(place,)), asking())
    assert found == {"a": Answer(0)}
    assert list(failed) == ["b"]
    assert asked == [["a", "b"]]
    assert failed["b"].condition == "REFUSED_BY_BROKER"
    assert failed["b"].message.startswith("asking about b: GROUP_AUTHORIZATION_FAILED; an ACL must allow Read on the group")


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_errors_that_are_answers(cluster: Cluster, code: int) -> None:
    """An expected error is an answer, even if it could pass."""
    ask, asked = refusing({"a": code})
    found, failed = cluster.requests().each(["a"], Table(a=(cluster.broker(ask),)), asking(expected={code}))
    assert found == {"a": Answer(code)}
    assert failed == {}
    assert len(asked) == 1


def test_brokers_that_move(cluster: Cluster) -> None:
    """A key whose broker is no longer the right one is looked up again. Another error keeps its broker."""
    old_ask, old = refusing({"a": ErrorCode.NOT_COORDINATOR, "b": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    new_ask, new = refusing({"b": ErrorCode.REQUEST_TIMED_OUT})
    places = cluster.broker(old_ask), cluster.broker(new_ask)
    table = Table(a=places, b=places[1:])
    found, failed = cluster.requests().each(["a", "b"], table, asking())
    assert set(found) == {"a", "b"}
    assert failed == {}
    assert table.forgotten == ["a"]
    assert old == [["a"]]
    assert new == [["b"], ["a", "b"]]


@pytest.mark.parametrize("lost", ["closed", "refused"])
def test_lost_connection(cluster: Cluster, lost: str) -> None:
    """After a lost connection, the broker is looked up again, and the new one is asked."""
    ask, asked = refusing()
    gone = NOWHERE if lost == "refused" else cluster.broker(lambda keys: None)
    table = Table(a=(gone, cluster.broker(ask)))
    found, failed = cluster.requests().each(["a"], table, asking())
    assert found == {"a": Answer(0)}
    assert failed == {}
    assert table.forgotten == ["a"]
    assert asked == [["a"]]


def test_broker_that_stays_away(cluster: Cluster) -> None:
    """A broker that does not come back is the error of its keys at the deadline of the client. Other keys are answered."""
    ask, _ = refusing()
    requests = cluster.requests(timeout_s=0.5)
    with takes(0.4, 3):
        found, failed = requests.each(["a", "b"], Table(a=(NOWHERE,), b=(cluster.broker(ask),)), asking())
    assert found == {"b": Answer(0)}
    assert list(failed) == ["a"]
    assert isinstance(failed["a"], BrokersUnavailable)
    assert failed["a"].message.startswith(f"asking about a at {LOOPBACK}:1: {LOOPBACK}:1: connecting failed")
    assert failed["a"].message.endswith(UNREACHABLE)


def test_silent_broker(cluster: Cluster) -> None:
    """A broker that does not answer is the error of its keys at the deadline of the call, not at the client's."""
    silent = cluster.scripted(lambda request: SILENT).address
    with takes(0.4, 3):
        assert isinstance(error_of_one(cluster, silent, timeout_s=0.4), BrokersUnavailable)


def test_attempt_that_is_cut_short(cluster: Cluster) -> None:
    """A last attempt that the deadline cuts short does not hide the error of the attempt before it."""
    first = iter([None])
    place = cluster.scripted(lambda request: next(first, SILENT)).address
    with takes(0.4, 3):
        _, failed = cluster.requests(timeout_s=0.5).each(["a"], Table(a=(place,)), asking())
    assert "closed" in failed["a"].message


def test_error_that_does_not_pass_in_time(cluster: Cluster) -> None:
    """A retriable error that stays is the error of its key at the deadline. A last request without time would hide it."""
    place = cluster.broker(lambda keys: dict.fromkeys(keys, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    with takes(0.4, 3):
        found, failed = cluster.requests(timeout_s=0.5).each(["a"], Table(a=(place,)), asking())
    assert found == {}
    assert isinstance(failed["a"], BrokersUnavailable)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in failed["a"].message


def test_leader_that_is_missing(cluster: Cluster) -> None:
    """A missing leader is an error after one more request: elections take longer, and callers have their own patience."""
    ask, asked = refusing(*[{"a": ErrorCode.NOT_LEADER_OR_FOLLOWER}] * 9)
    table = Table(a=(cluster.broker(ask),))
    _, failed = cluster.requests().each(["a"], table, asking())
    assert isinstance(failed["a"], NoLeader)
    assert len(asked) == 2
    assert table.forgotten == ["a", "a"]


@pytest.mark.parametrize("passes", [True, False])
def test_keys_without_a_broker(cluster: Cluster, passes: bool) -> None:
    """A key without a broker is looked up again if the error may pass. Other keys are answered."""
    ask, asked = refusing()
    place = cluster.broker(ask)
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE if passes else ErrorCode.GROUP_AUTHORIZATION_FAILED
    found, failed = cluster.requests().each(["a", "b"], Table(a=(code, place), b=(place,)), asking())
    assert set(found) == ({"a", "b"} if passes else {"b"})
    assert {key: error.condition for key, error in failed.items()} == ({} if passes else {"a": "REFUSED_BY_BROKER"})
    assert asked[0] == ["b"]


def test_key_that_a_response_lacks(cluster: Cluster) -> None:
    """A key missing in the response is an error of this key, after one request."""
    asked: list[list[str]] = []

    def ask(keys: list[str]) -> Codes:
        asked.append(keys)
        return {"b": 0, "c": 0}

    place = cluster.broker(ask)
    found, failed = cluster.requests().each(["a", "b"], Table(a=(place,), b=(place,)), asking())
    assert found == {"b": Answer(0)}
    assert list(failed) == ["a"]
    assert asked == [["a", "b"]]
    assert failed["a"].condition == "KAFKA_ERROR"
    assert "the response lacks a" in failed["a"].message


@pytest.mark.parametrize("refused", [{"a": 6}, {"a": 88, "b": 6}], ids=["alone", "next to an open transaction"])
def test_pause_before_a_second_look(cluster: Cluster, refused: Codes) -> None:
    """A key whose leader moved is asked about again after a pause, also if another key only waits for a transaction."""
    ask, asked = refusing(refused)
    place = cluster.broker(ask)
    with takes(0.05, LIMIT_S):
        found, failed = cluster.requests().each(["a", "b"], Table(a=(place, place), b=(place, place)), asking())
    assert set(found) == {"a", "b"}
    assert failed == {}
    assert asked == [["a", "b"], sorted(refused)]


def test_malformed_response(cluster: Cluster) -> None:
    """A malformed response is the error of the keys in its request, which is not repeated."""
    broken = cluster.scripted(lambda request: answered(request, b"\x7f\xff\xff\xff"))
    assert "a server that is not a broker, or a proxy, may have answered" in error_of_one(cluster, broken.address).message
    assert len([request for request in broken.received if request.api == ASK.key]) == 1


def test_broker_without_the_request(cluster: Cluster) -> None:
    """A broker without a version of the request is the error of its keys."""
    old = cluster.scripted(lambda request: None, api_ranges((METADATA, 1)))
    assert error_of_one(cluster, old.address).message.endswith("the broker is too old for this")


def test_many_keys(cluster: Cluster) -> None:
    """More keys than a request may have are divided into several requests to each broker, sent over one connection."""
    sizes: list[int] = []

    def ask(keys: list[str]) -> Codes:
        sizes.append(len(keys))
        return dict.fromkeys(keys, 0)

    first, second = cluster.broker(ask), cluster.broker(ask)
    names = [f"k{number}" for number in range(7)]
    table = Table(**{name: (second if name == "k6" else first,) for name in names})
    found, failed = cluster.requests().each(names, table, asking(most=4))
    assert set(found) == set(names)
    assert failed == {}
    assert sorted(sizes) == [1, 2, 4]


def test_no_keys(cluster: Cluster) -> None:
    """Without keys, no broker is asked."""
    assert cluster.requests().each([], Table(), asking()) == ({}, {})


class TestCoordinators:
    """The route by coordinators of groups."""

    @pytest.mark.parametrize("version", [0, 4])
    def test_new_coordinator(self, cluster: Cluster, version: int) -> None:
        """A coordinator is looked up once, and again after a broker says that it is not the coordinator."""
        old_ask, old = refusing({}, {"g": ErrorCode.NOT_COORDINATOR})
        new_ask, new = refusing()
        places = [cluster.broker(old_ask), cluster.broker(new_ask)]
        lookups: list[list[str]] = []

        def find(request: Reader) -> bytes:
            keys = [request.required_string()] if request.version == 0 else (request.int8(), names_in(request))[1]
            place = places[min(len(lookups), 1)]
            lookups.append(keys)
            return coordinator(place) if request.version == 0 else coordinators(dict.fromkeys(keys, place))

        server = cluster.scripted(Answers({FIND_COORDINATOR: find}), {**RANGES, FIND_COORDINATOR.key: (0, version)})
        requests = cluster.requests(server.address)
        route = CoordinatorRoute(requests)
        for _ in range(3):
            assert requests.each(["g"], route, asking()) == ({"g": Answer(0)}, {})
        assert lookups == [["g"], ["g"]]
        assert old == [["g"], ["g"]]
        assert new == [["g"], ["g"]]

    @pytest.mark.parametrize(("version", "lookups"), [(4, 1), (0, 3)])
    def test_lookups_of_many(self, cluster: Cluster, version: int, lookups: int) -> None:
        """Since Kafka 3.0, one request finds the coordinators of many groups. An error fails only its group."""
        ask, asked = refusing()
        place = cluster.broker(ask)

        def find(request: Reader) -> bytes:
            if request.version == 0:
                key = request.required_string()
                return coordinator(place, ErrorCode.GROUP_AUTHORIZATION_FAILED if key == "h" else 0)
            request.int8()
            denied: Mapping[str, Address | int] = {"h": int(ErrorCode.GROUP_AUTHORIZATION_FAILED)}
            return coordinators({key: denied.get(key, place) for key in names_in(request)})

        server = cluster.scripted(Answers({FIND_COORDINATOR: find}), {**RANGES, FIND_COORDINATOR.key: (0, version)})
        requests = cluster.requests(server.address)
        found, failed = requests.each(["g", "h", "i"], CoordinatorRoute(requests), asking())
        assert set(found) == {"g", "i"}
        assert asked == [["g", "i"]]
        assert {key: error.condition for key, error in failed.items()} == {"h": "REFUSED_BY_BROKER"}
        assert len([request for request in server.received if request.api == FIND_COORDINATOR.key]) == lookups

    def test_group_that_a_response_lacks(self, cluster: Cluster) -> None:
        """A group missing in the response is an error of this group."""
        place = cluster.broker(refusing()[0])
        server = cluster.scripted(Answers({FIND_COORDINATOR: lambda request: coordinators({"g": place})}), RANGES)
        requests = cluster.requests(server.address)
        found, failed = requests.each(["g", "h"], CoordinatorRoute(requests), asking())
        assert set(found) == {"g"}
        assert set(failed) == {"h"}

    def test_no_server_answers(self, cluster: Cluster) -> None:
        """Without an answer about coordinators, each group has the error, within the deadline."""
        silent = cluster.scripted(lambda request: SILENT)
        requests = cluster.requests(silent.address, timeout_s=0.5)
        with takes(0, 3):
            found, failed = requests.each(["g", "h"], CoordinatorRoute(requests), asking())
        assert found == {}
        assert set(failed) == {"g", "h"}
        for error in failed.values():
            assert isinstance(error, BrokersUnavailable)
            assert error.message.startswith("looking for coordinators at {}:{}: ".format(*silent.address))


class TestBrokers:
    """The route by ids of brokers, and metadata."""

    def test_moved_broker(self, cluster: Cluster) -> None:
        """A broker that is lost is asked at its new address. An unknown id is an error."""
        place = cluster.broker(refusing()[0])
        addresses = iter([NOWHERE, place, place, place])
        server = cluster.scripted(Answers({METADATA: lambda request: metadata({1: next(addresses, place)})}))
        requests = cluster.requests(server.address, timeout_s=1.5)
        call = asking()
        of_ids: Call[int, Answer] = Call(
            lambda broker: f"asking broker {broker}",
            lambda connection, ids: call.make(connection, list(map(str, ids))),
            lambda response, ids: {int(key): answer for key, answer in call.read(response, []).items()},
        )
        assert requests.each([1], BrokerRoute(requests), of_ids) == ({1: Answer(0)}, {})
        found, failed = requests.each([1, 2], BrokerRoute(requests), of_ids)
        assert found == {1: Answer(0)}
        assert set(failed) == {2}
        assert failed[2].message.startswith("asking broker 2: BROKER_NOT_AVAILABLE")

    @pytest.mark.parametrize("damage", ["silent", "malformed"])
    def test_another_server_answers(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
        """A server that is silent, or that is no broker, does not keep others from answering."""
        monkeypatch.setattr("pyspark_zkafka.brokers.requests._PATIENCE_S", (0.3, 10.0))
        script: Script = lambda request: SILENT if damage == "silent" else answered(request, b"\x7f\xff")  # noqa: E731
        bad = cluster.scripted(script)
        good = cluster.scripted(Answers({METADATA: lambda request: metadata({7: good.address})}))
        assert set(cluster.requests(bad.address, good.address).metadata().brokers) == {7}
        assert bad.connections == 1

    def test_silent_servers_before_another(self, cluster: Cluster) -> None:
        """Servers that do not answer do not end a request before the others are asked."""
        silent = [cluster.scripted(lambda request: SILENT, None).address for _ in range(2)]
        good = cluster.scripted(Answers({METADATA: lambda request: metadata({7: good.address})}))
        assert set(cluster.requests(*silent, good.address).metadata().brokers) == {7}

    def test_servers_that_replace_all(self, cluster: Cluster) -> None:
        """After all brokers were replaced, only the new ones are asked."""
        old = cluster.scripted(Answers({METADATA: lambda request: metadata({7: old.address})}))
        new = cluster.scripted(Answers({METADATA: lambda request: metadata({8: new.address})}))
        requests = cluster.requests(old.address)
        assert set(requests.metadata().brokers) == {7}
        requests.follow("{}:{}".format(*new.address))
        assert set(requests.metadata().brokers) == {8}

    def test_brokers_that_are_silent_in_a_listing(self, cluster: Cluster) -> None:
        """Requests to brokers that do not answer end at their deadline, with the look-ups of the brokers."""
        silent = [cluster.scripted(lambda request: SILENT, None).address for _ in range(2)]
        answers = [metadata(dict(enumerate(silent)))]
        first = cluster.scripted(Answers({METADATA: lambda request: answers.pop() if answers else SILENT}))
        requests = cluster.requests(first.address)
        requests.metadata()
        with takes(0, 2.5):
            _, failed = requests.each([0, 1], BrokerRoute(requests), asking(), requests.deadline(1.0))
        assert set(failed) == {0, 1}

    def test_short_timeout(self, cluster: Cluster) -> None:
        """A silent server does not take all the time of a request."""
        silent = cluster.scripted(lambda request: SILENT)
        good = cluster.scripted(Answers({METADATA: lambda request: metadata({7: good.address})}))
        assert set(cluster.requests(silent.address, good.address, timeout_s=2).metadata().brokers) == {7}

    def test_unreachable(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        """If no server can be reached, a request ends before its deadline."""
        monkeypatch.setattr("pyspark_zkafka.brokers.requests._UNREACHABLE_AFTER_S", 0.3)
        expected = f"requesting metadata at {LOOPBACK}:1: {LOOPBACK}:1: connecting"
        with takes(0.3, LIMIT_S / 2), pytest.raises(BrokersUnavailable, match=expected):
            cluster.requests(NOWHERE).metadata()

    @pytest.mark.parametrize("accepted", [False, True])
    def test_refused_login(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, accepted: bool) -> None:
        """A login that all servers refuse ends after two seconds. A server that accepts it answers."""
        asked: list[object] = []

        def exchange(login: object, host: str) -> Iterator[bytes]:
            asked.append(login)
            if accepted and len(asked) > 1:
                yield b"token"
                return
            raise LoginRefused("the broker refuses the login")

        script = Answers(
            {
                METADATA: lambda request: metadata({7: NOWHERE}),
                SASL_HANDSHAKE: lambda request: int16(0) + array([]),
                SASL_AUTHENTICATE: lambda request: int16(0) + string(None) + nullable_bytes(b""),
            }
        )

        monkeypatch.setattr("pyspark_zkafka.wire.connection.exchange", exchange)
        monkeypatch.setattr("pyspark_zkafka.brokers.requests._REFUSED_AFTER_S", 0.5)
        servers = [
            cluster.scripted(script, {**RANGES, SASL_HANDSHAKE.key: (0, 1), SASL_AUTHENTICATE.key: (0, 0)})
            for _ in range(2)
        ]
        requests = cluster.requests(
            *(server.address for server in servers),
            security_protocol="sasl_plaintext",
            sasl_mechanism="PLAIN",
            sasl_username="u",
            sasl_password="p",
        )
        if accepted:
            assert set(requests.metadata().brokers) == {7}
            return
        expected = r"REFUSED_BY_BROKER.*requesting metadata.*check the user and password"
        with takes(0.5, 4), pytest.raises(ClusterStateError, match=expected):  # unreachable servers take five seconds
            requests.metadata()
        assert all(server.connections for server in servers)


def test_unusable_property() -> None:
    """A file that cannot be read, or a property of TLS that is not supported, is an error of options; others do no harm."""
    missing, unknown = {"ssl.ca.location": "/missing.pem"}, {"ssl.crl.location": "/crl"}
    for properties, text in ((missing, "names /missing.pem"), (unknown, "do not support: ssl.crl.location")):
        with (
            pytest.raises(OptionError, match=rf"UNUSABLE_KAFKA_PROPERTY.*{text}"),
            BrokerRequests("h:1", {"security.protocol": "ssl", **properties}),
        ):
            pass
    with BrokerRequests("h:1", {"debug": "all", "socket.max.fails": 3}):
        pass


def test_closed_requests() -> None:
    """Requests are refused outside of the ``with`` block, also after it."""
    requests = BrokerRequests("h:1", {})
    for _ in range(2):
        with pytest.raises(RuntimeError, match="outside of its with block"):
            requests.metadata()
        with requests:
            pass


def test_deadlines() -> None:
    """A caller's time-out can only shorten the time-out of a request."""
    with BrokerRequests("h:1", {"socket.timeout.ms": 5_000}) as requests:
        assert [round(requests.deadline(wanted).left_s) for wanted in (None, 2, 90)] == [5, 2, 5]
