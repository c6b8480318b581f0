"""Real ZooKeeper and brokers for tests (public)."""
