"""librdkafka's reports: permanent refusals, and zkafka's errors for them."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.brokers.librdkafka_errors import ErrorReports, from_kafka
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, NoLeader, OptionError


@pytest.mark.parametrize(
    ("code", "text", "refused"),
    [
        (KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed", True),
        (KafkaError._AUTHENTICATION, "SASL X mechanism handshake failed: Broker: Unsupported SASL mechanism", True),
        (KafkaError._AUTHENTICATION, "SASL X mechanism handshake failed: Local: Broker transport failure", False),
        (KafkaError._AUTHENTICATION, "Disconnected: hung up from peer in state AUTH_LEGACY", False),
        (KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: HTTP 503", False),
        (KafkaError._SSL, "SSL handshake failed: certificate verify failed", True),
        (KafkaError._TRANSPORT, "Connection refused", False),
        (KafkaError._TRANSPORT, "SSL routines::tlsv13 alert certificate required: SSL alert number 116", True),
        (KafkaError._TRANSPORT, "receiving failed: [SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca", True),
        (KafkaError._TRANSPORT, "Receive failed: SSL routines::tlsv1 alert internal error: SSL alert number 80", False),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down", False),
    ],
)
def test_refusals(code: int, text: str, refused: bool) -> None:
    """Wrong credentials and certificates are refusals; a broken connection is not."""
    reports = ErrorReports()
    reports(KafkaError(code, text))
    assert text in str(reports.last)
    assert (reports.refusal("reading") is not None) is refused


def test_missing_right() -> None:
    """The last report names the missing right, for the error of a request that fails because of it."""
    reports = ErrorReports()
    reports(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "Failed to acquire idempotence PID"))
    assert "Failed to acquire idempotence PID; an ACL must allow Write on the topic, and before" in str(reports.last)


@pytest.mark.parametrize(
    ("code", "rights"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ["Describe", "Create", "Alter", "AlterConfigs"]),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, ["IdempotentWrite", "DescribeConfigs", "Create"]),
    ],
)
def test_rights_of_administration(code: int, rights: list[str]) -> None:
    """The error names every right that may be missing, including the rights of administrators' requests."""
    message = from_kafka(KafkaError(code), "adding partitions to topic t").message
    assert [right for right in rights if re.search(rf"\b{right}\b", message)] == rights


def test_offsets_of_an_open_transaction() -> None:
    """The error of a read of offsets that was not answered also names open transactions as a cause."""
    silence = KafkaError(KafkaError._TIMED_OUT, "Failed to get committed offsets: Local: Timed out")
    found = from_kafka(silence, "reading the offsets of group g")
    assert isinstance(found, BrokersUnavailable)
    assert "no coordinator answered, or a transaction with offsets of the group is open; check" in found.message
    assert "no coordinator" not in from_kafka(KafkaError(KafkaError._TIMED_OUT), "requesting metadata").message


def test_a_record_larger_than_a_response() -> None:
    """librdkafka names the wrong request if a response is too large: the error names the property to raise."""
    found = from_kafka(
        KafkaError(KafkaError._BAD_MSG, "FindCoordinator response error: Local: Bad message format"), "reading"
    )
    assert "kafka.receive.message.max.bytes (100,000,000 by default)" in found.message
    assert "receive" not in from_kafka(KafkaError(KafkaError._BAD_MSG, "CRC-32C"), "reading").message


def test_a_name_that_brokers_refuse() -> None:
    """New brokers refuse topic names of 250 to 255 characters, which old brokers allowed. The error names the limit."""
    assert "at most 249 characters" in from_kafka(KafkaError(KafkaError.TOPIC_EXCEPTION), "describing").message


def test_missing_token() -> None:
    """Without a token for OAUTHBEARER no client connects, and the error of an unanswered request gives the reason."""
    reports, silence = ErrorReports(), KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))
    reports(KafkaError(KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: HTTP 503"))
    found = reports.error(silence, "requesting metadata")
    assert isinstance(found, BrokersUnavailable)
    assert "HTTP 503; check kafka.security.protocol" in found.message
    reports.answered()
    assert "HTTP 503" not in reports.error(silence, "requesting metadata").message


def test_kerberos_has_advice_of_its_own() -> None:
    """A failed login by Kerberos names its properties and the KDC, and no password."""
    text = "SASL handshake failed (start (-1)): SASL(-1): generic failure: GSSAPI Error: No Kerberos credentials available"
    message = from_kafka(KafkaError(KafkaError._AUTHENTICATION, text), "reading t-0").message
    assert "check kafka.sasl.kerberos.principal, keytab and service.name" in message
    assert "that the KDC can be reached" in message
    assert "password" not in message


def test_a_refusal_is_kept_for_its_request() -> None:
    """Reports after a refusal do not hide it until the next request."""
    reports = ErrorReports()
    reports(KafkaError(KafkaError._AUTHENTICATION, "Authentication failed"))
    reports(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert reports.last == "_ALL_BROKERS_DOWN: 1/1 brokers are down"
    refusal = reports.refusal("reading t-0")
    assert isinstance(refusal, ClusterStateError)
    assert not refusal.retriable
    assert "reading t-0: _AUTHENTICATION (Authentication failed); check kafka.security.protocol" in refusal.message
    reports.answered()
    assert reports.refusal("reading t-0") is not None
    reports.begin()
    assert reports.refusal("reading t-0") is None


def test_a_new_client_is_refused_before_it_asks() -> None:
    """Until a broker has answered, a refusal from before the first request counts: librdkafka does not repeat it."""
    reports = ErrorReports()
    reports(KafkaError(KafkaError._SSL, "SSL handshake failed: certificate verify failed"))
    reports.begin()
    assert reports.refusal("listing topics") is not None


def test_reports_of_a_replaced_client() -> None:
    """A new client is not refused because an earlier one was, and its own refusal counts before it has had an answer."""
    reports = ErrorReports()
    reports.answered()
    reports(KafkaError(KafkaError._AUTHENTICATION, "Authentication failed"))
    reports.renew()
    assert reports.refusal("listing topics") is None
    reports(KafkaError(KafkaError._AUTHENTICATION, "Authentication failed"))
    reports.begin()
    assert reports.refusal("listing topics") is not None


def test_a_refusal_counts_from_its_first_report() -> None:
    """The age of a refusal counts from its first report."""
    now = 100.0
    reports = ErrorReports(lambda: now)
    for now in (100.0, 101.5):  # noqa: B007  # the clock reads it
        reports(KafkaError(KafkaError._AUTHENTICATION, "Authentication failed"))
    assert reports.refusal("reading", 2) is None
    now = 102.0
    assert reports.refusal("reading", 2) is not None


@pytest.mark.parametrize(
    ("code", "kind"), [(KafkaError._TIMED_OUT, "REFUSED_BY_BROKER"), (KafkaError.UNKNOWN_TOPIC_OR_PART, "UNKNOWN_TOPIC")]
)
def test_what_a_refused_request_fails_with(code: int, kind: str) -> None:
    """An unanswered request fails with the refusal, an answered one with the brokers' error."""
    reports = ErrorReports()
    reports(KafkaError(KafkaError._AUTHENTICATION, "Authentication failed"))
    assert reports.error(KafkaException(KafkaError(code)), "listing").condition == kind


def test_brokers_out_of_reach() -> None:
    """When all brokers are down, the error has the cause reported before, until a broker is back."""
    reports = ErrorReports()
    reports(KafkaError(KafkaError._TRANSPORT, "k:1: Connection refused"))
    assert reports.unreachable("listing") is None
    reports(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    error = reports.unreachable("listing topics")
    assert isinstance(error, BrokersUnavailable)
    assert error.message.startswith("listing topics: _TRANSPORT: k:1: Connection refused; no broker answered")
    assert "kafka.security.protocol" in error.message  # with another protocol, brokers only close the connection
    assert "advertised.listeners can be resolved and reached from here" in error.message
    failed = KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))
    assert "k:1: Connection refused; no broker answered" in reports.error(failed, "listing").message
    reports(KafkaError(KafkaError._TIMED_OUT, "one request"))
    assert reports.unreachable("listing") is None


def test_connections_that_are_closed() -> None:
    """If all brokers are down and no connection has failed, another protocol is the first cause to check."""
    reports = ErrorReports()
    reports(KafkaError(KafkaError._ALL_BROKERS_DOWN, "0/1 brokers are down"))
    error = reports.unreachable("listing topics")
    assert isinstance(error, BrokersUnavailable)
    assert error.message.startswith(
        "listing topics: servers accept connections, but close them or do not answer. Check first"
    )
    assert error.message.index("kafka.security.protocol") < error.message.index("kafka.bootstrap.servers")
    reports.answered()
    reports(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert "accept connections" not in str(reports.unreachable("listing topics"))


@pytest.mark.parametrize(
    ("code", "lost"), [(KafkaError._TRANSPORT, True), (KafkaError._RESOLVE, True), (KafkaError._AUTHENTICATION, False)]
)
def test_lost_connections(code: int, lost: bool) -> None:
    """A lost connection is remembered, even after a broker has answered, until it is reset."""
    reports = ErrorReports()
    assert not reports.has_lost
    reports(KafkaError(code, "k:1"))
    reports.answered()
    assert reports.has_lost is lost
    reports.renew()
    assert not reports.has_lost


def test_brokers_that_answer_again() -> None:
    """Brokers are reachable again after an answer, although librdkafka reports only that they went down."""
    reports = ErrorReports()
    reports(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    reports.answered()
    assert reports.unreachable("listing topics") is None


def test_properties_that_librdkafka_does_not_take() -> None:
    """An unusable file raises an option error, and the remedy says where the file must be."""
    error = from_kafka(KafkaError(KafkaError._INVALID_ARG, "Failed to create consumer: ssl.ca.location failed"), "making")
    assert isinstance(error, OptionError)
    assert "ssl.ca.location failed" in error.message
    assert "on the driver and on every executor" in error.message


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE]
)
def test_leaders_that_change_are_worth_another_try(code: int) -> None:
    """An election raises a retriable error, so that planning asks again."""
    error = from_kafka(KafkaError(code), "listing the offsets of t-0")
    assert isinstance(error, NoLeader)
    assert error.retriable


def test_no_leader_at_all() -> None:
    """A request for which librdkafka knows no leader raises a retriable error."""
    error = from_kafka(KafkaError(KafkaError._NOENT, "Failed to query partition leaders: No leaders found"), "listing")
    assert isinstance(error, NoLeader)
    assert not isinstance(from_kafka(KafkaError(KafkaError._NOENT, "No such entry"), "listing"), NoLeader)


COORDINATION = [
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
]


@pytest.mark.parametrize("code", COORDINATION)
def test_coordinators_that_cannot_be_reached(code: int) -> None:
    """A group temporarily without a coordinator is a retriable error, and brokers' refusal of the client is reported."""
    failed, reports = KafkaException(KafkaError(code)), ErrorReports()
    error = reports.error(failed, "committing")
    assert isinstance(error, BrokersUnavailable)
    assert "check that the brokers with __consumer_offsets run" in error.message
    reports(KafkaError(KafkaError._SSL, "SSL handshake failed: certificate verify failed"))
    assert reports.error(failed, "committing").condition == "REFUSED_BY_BROKER"


def test_a_refused_certificate() -> None:
    """A broker that refuses the client's certificate is not out of reach."""
    text = "Receive failed: error:0A000412:SSL routines::sslv3 alert bad certificate: SSL alert number 42"
    error = from_kafka(KafkaError(KafkaError._TRANSPORT, text), "requesting metadata")
    assert error.condition == "REFUSED_BY_BROKER"
    assert "alert number 42); check kafka.ssl.*: the authorities, the client's certificate" in error.message
