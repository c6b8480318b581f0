from pyspark_zkafka.protocol.exactly_once import RowSet
class RowDigest:
    def __init__(self, f): self.n=0; self.s=0
    def add(self, b):
        self.n+=len(b.value); self.s+=sum(hash(x) for x in b.value.to_pylist())
    def row_set(self): return RowSet(self.n, f"{self.s & (2**128-1):032x}")
