"""The package as Spark and users import it."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import pyspark_zkafka

_HEAVY = "kazoo", "confluent_kafka"
_BLOCK = f"""
import importlib.abc, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {_HEAVY}:
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Block())
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_all_equals_the_public_names() -> None:
    """`__all__` has exactly the public names, including those imported on use but no modules, sorted."""
    public = {n for n, v in vars(pyspark_zkafka).items() if not n.startswith("_") and not isinstance(v, ModuleType)}
    assert pyspark_zkafka.__all__ == sorted(public | {"LagListener", "__version__"})


def test_import_works_without_clients() -> None:
    """If kazoo and confluent_kafka cannot be imported, the source is still found by its name."""
    code = f"{_BLOCK}\nimport pyspark_zkafka as z\nprint(z.DefaultSource.name(), z.ZKafkaDataSource({{}}).name())"
    assert run(code) == "zkafka zkafka"


def test_options_are_checked_without_clients() -> None:
    """If the clients cannot be imported, bad options are still reported as such."""
    code = (
        f"{_BLOCK}\nfrom pyspark_zkafka import ZKafkaDataSource, ZKafkaError\n"
        "try:\n    ZKafkaDataSource({'subscribe': 't'}).schema()\n"
        "except ZKafkaError as error:\n    print(error.condition)"
    )
    assert run(code) == "INVALID_OPTIONS"


def test_the_listener_is_imported_when_it_is_used() -> None:
    """The listener and PySpark's streaming are imported at its first use, without prometheus-client."""
    module = "pyspark_zkafka.lag_listener"
    code = (
        f"import sys, pyspark_zkafka\nassert {module!r} not in sys.modules\n"
        f"from pyspark_zkafka import LagListener\nprint(LagListener.__module__, 'prometheus_client' in sys.modules)"
    )
    assert run(code) == f"{module} False"


def test_unknown_names_are_reported_as_such() -> None:
    """An unknown name of the package is an AttributeError, as for any module."""
    name = "LagListner"
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
        getattr(pyspark_zkafka, name)


def test_default_source_is_the_source() -> None:
    """Spark's entry point is the data source itself."""
    assert pyspark_zkafka.DefaultSource is pyspark_zkafka.ZKafkaDataSource
