"""``zkafka exporter``: metrics of the cluster and its groups, for Prometheus."""

from __future__ import annotations

import errno
import importlib.util
import logging
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Annotated

import typer

from pyspark_zkafka.conditions import INVALID_OPTION
from pyspark_zkafka.model.nouns import host_port
from pyspark_zkafka.tools.command import MOST_SECONDS, Target, reads_cluster
from pyspark_zkafka.tools.group_describe import StorageOption
from pyspark_zkafka.worker import LogFormatter

_LAST_PORT = 65_535


@reads_cluster
def exporter(
    target: Target,
    listen_address: Annotated[
        str, typer.Option(metavar="[HOST]:PORT", help="Where to serve /metrics; without a host, on all addresses.")
    ] = ":9308",
    topic_filter: Annotated[
        str, typer.Option(metavar="REGEX", help="Export only topics whose name contains a match.")
    ] = "",
    group_filter: Annotated[
        str, typer.Option(metavar="REGEX", help="Export only groups whose name contains a match.")
    ] = "",
    timeout: Annotated[
        float,
        typer.Option(
            min=1,
            max=MOST_SECONDS,
            metavar="SECONDS",
            help="Time limit of a scrape. Keep it below Prometheus's scrape_timeout.",
        ),
    ] = 8.0,
    storage: StorageOption = None,
) -> None:
    """Serve metrics for Prometheus: lag, offsets, owners and members of groups, partitions, brokers and the controller.

    The metrics have the names and labels of kafka_exporter where it has them. The cluster is read at each scrape.
    If that fails, zkafka_up is 0, the log says why, and the exporter continues.

    Examples: zkafka exporter --zookeeper zk1:2181/kafka --listen-address :9308;
    zkafka exporter --bootstrap-server broker1:9092
    """
    host, port = parse_address(listen_address)
    topics, groups = parse_filter("--topic-filter", topic_filter), parse_filter("--group-filter", group_filter)
    if importlib.util.find_spec("prometheus_client") is None:
        raise INVALID_OPTION("zkafka exporter needs prometheus-client: pip install 'pyspark-zkafka[metrics]'")
    from prometheus_client import CollectorRegistry, start_http_server

    from pyspark_zkafka.tools.collector import BrokerReader, ClusterCollector, EnsembleReader, KafkaReader
    from pyspark_zkafka.zookeeper import connection

    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(message)s"))
    # By this logger, kazoo reports each attempt to connect.
    handler.addFilter(lambda record: record.name != connection.__name__ or record.levelno >= logging.ERROR)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    config, store = target.connection.zookeeper, target.storage(storage)
    source = "ZooKeeper"
    if config is None:
        source = "Metadata"
        ensemble: EnsembleReader | KafkaReader = KafkaReader(target.connection, timeout, topics, groups)
    else:
        ensemble = EnsembleReader(config, topics, groups)
    brokers = BrokerReader(target.connection, store, timeout)
    collector = ClusterCollector(ensemble.read, brokers.read, timeout, store, source)
    registry = CollectorRegistry()
    registry.register(collector)
    with closing(ensemble), closing(brokers), closing(collector):
        try:
            server, _ = start_http_server(port, host or all_addresses(), registry)
        except OSError as error:
            raise INVALID_OPTION(
                f"--listen-address {listen_address} cannot be used: {error.strerror}. {_remedy(error)}",
            ) from error
        with _sigterm_as_ctrl_c(), suppress(KeyboardInterrupt):
            address = host_port(host or "localhost", server.server_port)
            target.output.note(f"Metrics are at http://{address}/metrics; Ctrl-C ends.")
            threading.Event().wait()


def all_addresses() -> str:
    """Return the address to listen on for all addresses: IPv6's where its sockets accept IPv4, too."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            return "0.0.0.0" if probe.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) else "::"
    except OSError:  # no IPv6
        return "0.0.0.0"


def _remedy(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "Use a host name that this machine can look up, or :PORT for all addresses"
    if error.errno == errno.EADDRNOTAVAIL:
        return "Use an address of this machine, or :PORT for all addresses"
    if error.errno == errno.EACCES:
        return "Choose a port above 1023"
    return "Choose another port, or end the program that has this one"


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Make SIGTERM end the exporter even if it is process 1 of a container, where the signal's default does nothing."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def parse_address(text: str) -> tuple[str, int]:
    """The host (empty for all addresses) and the port of an address to listen on. Raises OptionError for other texts.

    >>> parse_address(":9308"), parse_address("[::1]:80")
    (('', 9308), ('::1', 80))
    """
    host, _, port = text.rpartition(":")
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > _LAST_PORT or (":" in host and not host.startswith("[")):
        raise INVALID_OPTION(f"--listen-address is {text}; use HOST:PORT, or :PORT for all addresses")
    return host.strip("[]"), int(port)


def parse_filter(option: str, text: str) -> re.Pattern[str]:
    """Return the regex of an option; raises OptionError for a malformed one."""
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        reason = "its groups are nested too deeply" if isinstance(error, RecursionError) else str(error)
    raise INVALID_OPTION(f"{option} cannot be used: {reason}. Correct the regular expression")
