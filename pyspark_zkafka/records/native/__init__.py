"""The compiled path: from record batches to Arrow, and from Arrow to librdkafka.

``*.c`` is plain C, independent of Python. It decodes record batches of fetch responses into Arrow columns, passes rows of
Arrow columns to librdkafka's producer, and hashes keys and rows. Python calls it through ctypes, so that one build serves
every version of Python, and the GIL is released meanwhile. It uses the librdkafka that confluent-kafka has loaded.
"""
