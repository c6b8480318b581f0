"""The compiled path between Arrow and librdkafka.

``*.c`` holds plain C that knows nothing of Python: it fills Arrow columns from librdkafka's messages, sends the rows of
Arrow columns, and hashes keys. It is called through ctypes, so one build serves every version of Python, and the GIL is
free while it runs. It uses the librdkafka that confluent-kafka has loaded; settings, security and what an error means are
the same code as the pure-Python path's, in `pyspark_zkafka.transport`.
"""
