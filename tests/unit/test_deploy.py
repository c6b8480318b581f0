"""Alert rules, dashboard and page of metrics, compared with the exported metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from pyspark_zkafka.inspect.groups import GroupReports
from pyspark_zkafka.inspect.reads import ClusterReport
from pyspark_zkafka.lag_listener import LagMetrics
from pyspark_zkafka.tools.collector import ClusterCollector, Ensemble

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy/grafana/zkafka.json"
USERS = [DASHBOARD, *sorted((ROOT / "deploy/prometheus").glob("*.yml"))]


def exported() -> set[str]:
    """Return the names of all metrics as Prometheus stores them."""
    collector = ClusterCollector(lambda: Ensemble(ClusterReport()), lambda ensemble: GroupReports(), 30)
    families = [*collector.collect(), *LagMetrics(CollectorRegistry()).collect()]
    collector.close()
    return {family.name + ("_total" if family.type == "counter" else "") for family in families}


@pytest.mark.parametrize("file", USERS, ids=lambda file: file.name)
def test_expressions_use_metrics_that_exist(file: Path) -> None:
    """Rules and panels only use exported metrics."""
    used = set(re.findall(r"\bz?kafka_[a-z_]+", file.read_text()))
    assert used <= exported()


def test_the_end_of_an_application_is_no_missing_exporter() -> None:
    """The alert on exporters that are not scraped concerns the job of exporters, and applications have another job."""
    folder = ROOT / "deploy/prometheus"
    ports = re.findall(r"job_name: ([\w-]+)(?:.*\n)+?.*targets: .*:(\d+)", (folder / "scrape.yml").read_text())
    assert {port: job for job, port in ports} == {"9308": "zkafka", "8000": "zkafka-applications"}
    assert 'expr: up{job="zkafka"} == 0' in (folder / "zkafka-alerts.yml").read_text()


def test_the_page_has_all_metrics() -> None:
    """docs/metrics.md lists exactly the exported metrics."""
    documented = set(re.findall(r"`(z?kafka_[a-z_]+)`", (ROOT / "docs/metrics.md").read_text()))
    assert documented == exported()


def test_panels_are_distinct() -> None:
    """The dashboard's panels have distinct ids and do not overlap."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in panels}) == len(panels)
