"""The logger of librdkafka's own messages, ``pyspark_zkafka.librdkafka``."""

from __future__ import annotations

import logging

__all__ = ["librdkafka_logger"]


def librdkafka_logger() -> logging.Logger:
    """The logger for librdkafka, at level CRITICAL unless the application has set another.

    librdkafka repeats itself, hundreds of lines a minute while a broker is down, and recovers from most of the errors that
    it logs. The others are raised as an error of ours, with its last one in the text.
    """
    logger = logging.getLogger("pyspark_zkafka.librdkafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
    return logger
