"""Benchmarks of zkafka, Spark's JVM connector, plain confluent-kafka, and upper limits; run by ``make bench``."""
