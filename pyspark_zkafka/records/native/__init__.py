"""The compiled code: from record batches to Arrow, and from Arrow to record batches.

``*.c`` is plain C, independent of Python and librdkafka. It decodes record batches and Avro payloads into Arrow columns,
encodes rows of Arrow columns into record batches, and hashes keys and rows. Python calls it through ctypes, so that one
build serves every version of Python, and the GIL is released meanwhile.
"""
