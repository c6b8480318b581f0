"""``python -m pyspark_zkafka.tools``: the ``zkafka`` command."""

from __future__ import annotations

from pyspark_zkafka.tools import main

main()
