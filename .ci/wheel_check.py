"""Shows, where only the distribution is installed, that Spark finds the source without a registration call.

Argument: native or pure, the path that must be in use.
"""

import importlib.util
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import pyspark_zkafka
from pyspark_zkafka.records.native.library import describe, library

installed = Path(pyspark_zkafka.__file__).parent
if "site-packages" not in installed.parts or not (installed / "py.typed").exists():
    sys.exit(f"not the installed package, or without py.typed: {installed}")
if (library() is not None) != (sys.argv[1] == "native"):
    sys.exit(f"expected the {sys.argv[1]} path, but {describe()}")
print(describe())
if importlib.util.find_spec("pytest") is not None:
    sys.exit("the environment is not empty: it has pytest")

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    spark.read.format("zkafka").load().count()
except Exception as error:  # the class is Py4J's or Spark's, by version
    text = str(error)
    if "INVALID_OPTIONS" not in text or "set zookeeper.connect" not in text:
        raise
    print("found: zkafka answers", text.split("INVALID_OPTIONS] ")[1].splitlines()[0])
else:
    sys.exit("zkafka read something without options")
finally:
    spark.stop()
