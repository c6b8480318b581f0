"""Options of a write, batch or streaming, which can only append."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.options.model import WriteOptions

__all__ = ["parse_append"]

_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})


def parse_append(raw: Mapping[str, str], *, overwrite: bool, is_stream: bool) -> WriteOptions:
    """Parse the options of a write; a streaming one also accepts those that Spark itself reads.

    `overwrite` is Spark's form of the save mode, and of the output mode of a stream: True for overwrite or complete. Raises
    OptionError for these as well, and for a stream's commitOffsets and batchId.
    """
    if is_stream:
        _require_stream(raw, overwrite=overwrite)
        return parse_write({name: value for name, value in raw.items() if name.lower() not in _SPARKS_OWN})
    if overwrite:
        raise OptionError(
            "SAVE_MODE",
            'A topic is a log and cannot be overwritten; use .mode("append"), and delete the topic\'s records '
            "first if they are to be replaced",
        )
    return parse_write(raw)


def _require_stream(raw: Mapping[str, str], *, overwrite: bool) -> None:
    if overwrite:
        raise OptionError(
            "OUTPUT_MODE",
            "The output mode complete replaces the whole result with each micro-batch, and records of a topic cannot be "
            "replaced; use append (with a watermark, if the query aggregates), or write what has "
            "changed with outputMode('update') and foreachBatch",
        )
    if any(name.lower() == "batchid" for name in raw):
        raise OptionError(
            "INVALID_OPTIONS",
            "batchId is an option of batch writes; Spark numbers the micro-batches of a stream itself; leave batchId out",
        )
    if any(name.lower() == "commitoffsets" for name in raw):
        raise OptionError(
            "INVALID_OPTIONS",
            "commitOffsets is an option of batch writes, and names fixed offsets; a stream commits its offsets on the "
            "reading side, after each micro-batch; give group.id to readStream, and leave commitOffsets out",
        )
