"""Measures zkafka beside Spark's JVM connector, plain confluent-kafka, and the limits of both; ``make bench`` runs it."""
