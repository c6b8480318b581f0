"""``zkafka admin config`` with a fake ensemble, and brokers that validate or do not respond."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, OptionError, UnknownTopic
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.admin_config import delete, describe, set_
from tests.support.ensemble_client import EnsembleClient
from tests.support.running import Run, Show

PATH = "/config/topics/t"
CHANGES = "/config/changes"
SILENT = BrokersUnavailable("BROKERS_UNAVAILABLE", "no broker answered")


@pytest.fixture(autouse=True)
def stored(client: EnsembleClient) -> None:
    """An ensemble whose topic has two settings, and a controller."""
    client.put("/controller", b'{"version": 1, "brokerid": 1, "timestamp": "1"}')
    client.put(PATH, b'{"version": 1, "config": {"retention.ms": "1", "cleanup.policy": "delete"}}')
    client.put(CHANGES)


def config(client: EnsembleClient) -> dict[str, str]:
    """Return the stored settings."""
    found: dict[str, str] = json.loads(client.data(PATH) or b"")["config"]
    return found


def changes(rows: list[Row]) -> list[tuple[str, str | None, str | None]]:
    return [(row["name"], row["value"], row["new_value"]) for row in rows]


def test_set(client: EnsembleClient, validator: Any, run: Run) -> None:
    """Settings are added and replaced, only changes are shown, a broker validates all, and brokers are notified."""
    rows = run(set_, "t", ["retention.ms=2", "cleanup.policy=delete", "min.insync.replicas=2"])
    assert changes(rows) == [("retention.ms", "1", "2"), ("min.insync.replicas", None, "2")]
    expected = {"retention.ms": "2", "cleanup.policy": "delete", "min.insync.replicas": "2"}
    assert config(client) == expected
    assert validator.checked == [("t", expected)]
    assert [path for path in client.ensemble.nodes if path.startswith(f"{CHANGES}/")]


def test_a_setting_that_is_given_twice(client: EnsembleClient, run: Run) -> None:
    """A setting that is given twice is a wrong option, and nothing is changed."""
    with pytest.raises(typer.BadParameter, match=r"retention\.ms is given twice; give one value for each name"):
        run(set_, "t", ["retention.ms=2", " retention.ms=3"])
    assert config(client)["retention.ms"] == "1"


def test_delete(client: EnsembleClient, run: Run) -> None:
    """Settings are deleted, and deleting a missing one is an error."""
    assert changes(run(delete, "t", ["retention.ms"])) == [("retention.ms", "1", None)]
    assert config(client) == {"cleanup.policy": "delete"}
    with pytest.raises(OptionError, match=r"The topic has no setting c, d of its own"):
        run(delete, "t", ["d", "cleanup.policy", "c"])


@pytest.mark.parametrize(("command", "argument"), [(set_, "retention.ms=2"), (delete, "retention.ms")])
def test_success(command: Any, argument: str, show: Show) -> None:
    """A change is confirmed after it was made."""
    assert show(command, "t", [argument])[1] == "Changed the configuration of t.\n"


def test_dry_run(client: EnsembleClient, validator: Any, show: Show) -> None:
    """A dry run shows and validates the change without making it."""
    text, notes = show(set_, "t", ["retention.ms=2"], dry_run=True)
    assert "NEW-VALUE" in text
    assert notes == "Dry run: nothing was changed.\n"
    assert config(client)["retention.ms"] == "1"
    assert len(validator.checked) == 1


def test_no_change(client: EnsembleClient, validator: Any, show: Show) -> None:
    """Settings that have the given values already are not written again."""
    assert show(set_, "t", ["retention.ms=1"]) == ("", "The settings have these values already.\n")
    assert validator.checked == []
    assert client.transactions == 0


def test_refused_by_a_broker(client: EnsembleClient, validator: Any, run: Run) -> None:
    """Settings that a broker refuses are not written."""
    validator.error = OptionError("INVALID_TOPIC_CONFIG", "Unknown topic config name: retention")
    with pytest.raises(OptionError, match="Unknown topic config name"):
        run(set_, "t", ["retention=2"])
    assert client.transactions == 0


def test_without_an_answer(client: EnsembleClient, validator: Any, show: Show) -> None:
    """If no broker responds, changed settings are checked against a list of Kafka's settings, with a note."""
    validator.error = SILENT
    _, notes = show(set_, "t", ["retention.ms=2"])
    assert notes.startswith("No broker has validated the values; they are checked against Kafka 3.9's settings. [BROKERS_")
    assert config(client)["retention.ms"] == "2"
    with pytest.raises(OptionError, match=r"INVALID_TOPIC_CONFIG\] Settings of t: .*retention\.ms") as caught:
        show(set_, "t", ["retention.ms=soon"])
    assert caught.value.__cause__ is SILENT
    assert config(client)["retention.ms"] == "2"


@pytest.mark.parametrize(
    ("command", "argument", "left"),
    [(set_, "retention.ms=2", {"of.a.vendor": "1", "retention.ms": "2"}), (delete, "of.a.vendor", {})],
)
def test_old_settings_are_not_checked(
    client: EnsembleClient, validator: Any, run: Run, command: Any, argument: str, left: dict[str, str]
) -> None:
    """Without a broker, a stored setting that Kafka does not know does not prevent a change."""
    validator.error = SILENT
    client.put(PATH, b'{"version": 1, "config": {"of.a.vendor": "1"}}')
    run(command, "t", [argument])
    assert config(client) == left


def test_no_controller(client: EnsembleClient, run: Run) -> None:
    """A change is refused if no controller would act on it."""
    del client.ensemble.nodes["/controller"]
    with pytest.raises(ClusterStateError, match="NO_ZOOKEEPER_CONTROLLER"):
        run(set_, "t", ["retention.ms=2"])
    assert client.transactions == 0


def test_unknown_topic(run: Run) -> None:
    """Changing the settings of an unknown topic is an error."""
    with pytest.raises(UnknownTopic, match="There is no topic gone"):
        run(delete, "gone", ["retention.ms"])


@pytest.mark.parametrize(("topic", "restricted"), [(None, {}), (["t", "u"], {"subscribe": "t,u"})])
def test_description(views: Any, show: Show, topic: list[str] | None, restricted: dict[str, str]) -> None:
    """The settings of all topics, or of the given ones, are shown."""
    views.rows |= {"configs": [], "topics": [{"topic": "t"}, {"topic": "u"}]}
    assert show(describe, topic) == ("", "No topic has settings of its own.\n")
    assert views.restricted[-1] == ("configs", restricted)


def test_description_of_an_unknown_topic(views: Any, show: Show) -> None:
    """A topic that does not exist is an error: it would look like a topic without settings of its own."""
    views.rows |= {"configs": [], "topics": [{"topic": "t"}]}
    with pytest.raises(UnknownTopic, match="Topics do not exist: u"):
        show(describe, ["t", "u"])
