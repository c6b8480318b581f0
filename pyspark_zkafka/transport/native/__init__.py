"""The compiled path between Arrow and librdkafka, and between Arrow and the brokers' record batches.

``*.c`` is plain C, independent of Python: it fills Arrow columns from librdkafka's messages or from the record batches of
fetch responses, sends the rows of Arrow columns, and hashes keys. It is called through ctypes, so one build serves every
version of Python, and the GIL is released while it runs. It uses the librdkafka that confluent-kafka has loaded; settings,
security and handling of errors are the same code as the pure-Python path's, in `pyspark_zkafka.transport`.
"""
