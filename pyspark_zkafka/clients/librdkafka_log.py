"""Where librdkafka's own log goes: the logger ``pyspark_zkafka.librdkafka``."""

from __future__ import annotations

import logging

__all__ = ["librdkafka_logger"]


def librdkafka_logger() -> logging.Logger:
    """The logger for librdkafka, which says ERROR and worse unless the application has set its level.

    Its warnings are about what it mends by itself (a broker that restarts, a coordinator that loads); what it cannot mend
    comes back as an error, with the last of them in its text.
    """
    logger = logging.getLogger("pyspark_zkafka.librdkafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
    return logger
