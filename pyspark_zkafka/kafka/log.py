"""Where librdkafka's own log goes: the logger ``pyspark_zkafka.librdkafka``."""

from __future__ import annotations

import logging

__all__ = ["librdkafka_logger"]


def librdkafka_logger() -> logging.Logger:
    """The logger for librdkafka, which says CRITICAL alone unless the application has set its level.

    librdkafka repeats itself, hundreds of lines a minute while a broker is away, and mends most of what it tells of.
    What it cannot mend comes back as an error of ours, with the last of its own in the text.
    """
    logger = logging.getLogger("pyspark_zkafka.librdkafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
    return logger
