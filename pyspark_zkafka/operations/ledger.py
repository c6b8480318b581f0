"""Reads and deletions of the ledgers of exactly-once writes."""

from __future__ import annotations

from collections.abc import Collection

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.kafka.group_admin import GroupAdmin
from pyspark_zkafka.operations.ledger_state import Ledger, group_by_query, groups_of, require_queries

__all__ = ["delete_ledger", "read_ledgers"]


def read_ledgers(brokers: GroupAdmin, queries: Collection[str] | None = None) -> dict[str, Ledger]:
    """The ledgers by query, all by default; blocks for a request to each broker, and one for each group of a ledger.

    Raises
    ------
    LedgerError
        ``UNKNOWN_LEDGER``: a query has none.
    ClusterStateError
        A broker refuses, or does not answer.
    """
    groups = groups_of(brokers.group_names(), queries)
    ledgers = group_by_query(groups, brokers.committed_metadata(name for names in groups.values() for name in names))
    require_queries(ledgers, queries or ())
    return ledgers


def delete_ledger(brokers: GroupAdmin, ledger: Ledger, *, force: bool = False) -> None:
    """Delete the groups of a ledger, if it is as it was when it was read; with `force`, whatever it is now.

    Blocks for two requests for each group. If one fails, those before it are deleted; to delete the rest, call it again.

    Raises
    ------
    LedgerError
        ``LEDGER_IN_USE``: it has changed.
    GroupError
        Consumers are in a group of it.
    ClusterStateError
        The brokers refuse, or do not answer.
    """
    groups = {ledger.query: ledger.groups}
    now = group_by_query(groups, brokers.committed_metadata(ledger.groups))[ledger.query]
    if now != ledger and not force:
        raise LedgerError(
            "LEDGER_IN_USE",
            f"The ledger of {ledger.query} was not deleted, as it has changed since it was shown: the query is running; "
            "stop it, and run this again a minute later, or use --force",
            queries=[ledger.query],
        )
    brokers.delete_groups(ledger.groups)
