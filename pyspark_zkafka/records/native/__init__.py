"""The compiled path: from the brokers' record batches to Arrow, and from Arrow to librdkafka.

``*.c`` is plain C, independent of Python: it fills Arrow columns from the record batches of fetch responses, passes the
rows of Arrow columns to librdkafka's producer, and hashes keys and rows. It is called through ctypes: one build serves
every version of Python, and the GIL is released while it runs. It uses the librdkafka that confluent-kafka has loaded.
"""
