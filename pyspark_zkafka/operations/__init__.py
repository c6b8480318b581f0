"""An operator's tasks on a cluster and its groups: pure decisions, and thin drivers that ask and write."""
