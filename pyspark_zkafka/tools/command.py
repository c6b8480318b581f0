"""Options and arguments of all commands, and the connections and the output that commands get from them."""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import javaproperties
import typer

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.cluster import bootstrap_servers
from pyspark_zkafka.conditions import GROUP_ACTIVE, INVALID_OPTION, UNKNOWN_TOPIC
from pyspark_zkafka.errors import OptionError, ZKafkaError, listing, printable
from pyspark_zkafka.inspect.groups import GroupReports, OffsetsStorage
from pyspark_zkafka.inspect.reads import read_groups
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.model.znodes.groups import ids_path, owners_path
from pyspark_zkafka.options.batch import parse_connection, parse_read
from pyspark_zkafka.options.values import ConnectionOptions, resolve_references
from pyspark_zkafka.read.view_planner import plan_view
from pyspark_zkafka.tools.output import Output
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.snapshots import Activity, ZooKeeperClient, require_inactive

Parsed = TypeVar("Parsed")

PartitionSpec = tuple[str, int | None]
"""A topic and one of its partitions; None for all of its partitions."""

Groups = Annotated[list[str] | None, typer.Argument(metavar="GROUP", help="The groups.", show_default=False)]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="All groups.")]

FAILED, USAGE = 1, 2
"""Exit statuses."""

MOST_SECONDS = 86_400.0
"""The largest value of options that set a pause or the limit of a wait."""

_PANEL = "Connection and output"
_ADDRESSES = {"zookeeper": "zookeeper.connect", "bootstrap_server": "kafka.bootstrap.servers"}
_OWN_PREFIXES = ("zookeeper.", "kafka.", "listener.")
_PROMPT = re.compile(r"\$\{prompt:([^}]*)\}")
_SHORT_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Target:
    """The cluster of a command, to which it connects where needed, and the command's output."""

    options: dict[str, str] = field(repr=False)
    output: Output
    dry_run: bool = False
    yes: bool = False

    @cached_property
    def connection(self) -> ConnectionOptions:
        """The settings of connections; OptionError if neither ZooKeeper nor brokers were given, or an option is wrong."""
        self.require_cluster()
        return parse_connection(self.options)

    def view(self, name: str, topics: Collection[str] | None = None, /, **options: str) -> list[Row]:
        """Return the rows of one of the package's views, as in docs/columns.md; `topics` and `options` restrict it."""
        self.require_cluster()
        if topics:
            options["subscribe"] = ",".join(topics)
        return plan_view(name, parse_read({**self.options, **options, "view": name}))

    def require_cluster(self) -> None:
        """Raise OptionError if neither ZooKeeper nor brokers were given."""
        if not {"zookeeper.connect", "kafka.bootstrap.servers"} & self.options.keys():
            raise INVALID_OPTION(
                "No cluster is given; use --zookeeper (or ZKAFKA_ZOOKEEPER), or --bootstrap-server if it has no ZooKeeper",
            )

    def storage(self, given: OffsetsStorage | None) -> OffsetsStorage:
        """Return the given store of offsets; by default ZooKeeper, or Kafka if ZooKeeper was not given.

        Raises OptionError for a store in ZooKeeper without ZooKeeper.
        """
        if given == "kafka" or (given is None and self.connection.zookeeper is None):
            return "kafka"
        self.zookeeper()
        return given or "zookeeper"

    def zookeeper(self) -> ZooKeeperClient:
        """Return a ZooKeeper client, to be opened by `with`. Raises OptionError if ZooKeeper was not given."""
        if self.connection.zookeeper is None:
            raise INVALID_OPTION(
                "This command works on ZooKeeper's data; use --zookeeper (or ZKAFKA_ZOOKEEPER if no address is given)"
            )
        return ZooKeeperClient(self.connection.zookeeper)

    def brokers(self, snapshot: ClusterSnapshot) -> KafkaAdmin:
        """Return an admin client of the given brokers, or of the live brokers in the snapshot, to be opened by `with`."""
        return KafkaAdmin.of(self.connection, bootstrap_servers(self.connection, snapshot))

    def group_brokers(self, snapshot: ClusterSnapshot, timeout_s: float | None = None) -> GroupAdmin:
        """Return a client for groups of the same brokers as `brokers`; `timeout_s` limits each of its requests."""
        limit = {} if timeout_s is None else {"socket.timeout.ms": int(timeout_s * 1000)}
        return GroupAdmin(bootstrap_servers(self.connection, snapshot), {**self.connection.kafka, **limit})

    def proceed(self, question: str) -> bool:
        """Ask whether to make the change, and return the answer: True with ``--yes``, False in a dry run.

        Call it after the change was shown. Declining ends the command with exit status 1. Raises OptionError if there is no
        terminal to ask on.
        """
        if self.dry_run:
            self.output.note("Dry run: nothing was changed.")
            return False
        if self.yes:
            return True
        if not sys.stdin.isatty():
            raise INVALID_OPTION("There is no terminal for the confirmation; use --yes or --dry-run")
        typer.confirm(printable(question), abort=True, err=True)
        return True


def reads_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command whose first parameter is a `Target`: add the options for connection and output."""
    return _with_target(command, without=("dry_run", "yes"))


def reads_files(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command that needs no cluster: as `reads_cluster`, without the options for the connection."""
    without = ("dry_run", "yes", "zookeeper", "bootstrap_server", "command_config")
    return _with_target(command, without)


def changes_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command that changes the cluster: as `reads_cluster`, with ``--dry-run`` and ``--yes``."""
    return _with_target(command)


def _with_target(command: Callable[..., None], without: Collection[str] = ()) -> Callable[..., None]:
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    options = inspect.signature(_target, eval_str=True).parameters
    added = [option for name, option in options.items() if name not in ("context", *without)]

    @wraps(command)
    def run(context: typer.Context, **values: Any) -> None:
        taken = {option.name: values.pop(option.name) for option in added}
        try:
            command(_target(context, **taken), **values)
        except (ZKafkaError, OSError) as error:
            if taken["debug"]:
                traceback.print_exc()
            raise typer.Exit(exit_status(error)) from error

    # Help keeps the line breaks of all paragraphs but the first.
    run.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in (command.__doc__ or "").split("\n\n"))
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *added))]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _target(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            envvar="ZKAFKA_ZOOKEEPER",
            metavar="HOST:PORT[,...][/CHROOT]",
            help="ZooKeeper's servers and the cluster's chroot. The brokers are found there.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            envvar="ZKAFKA_BOOTSTRAP_SERVER",
            metavar="HOST:PORT[,...]",
            help="Brokers to connect to first. Enough alone, except for admin, groups import and groups migrate.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            envvar="ZKAFKA_COMMAND_CONFIG",
            metavar="FILE",
            help="File of connection and security properties, as for Kafka's own tools. It may also hold zookeeper.* "
            "properties. Values may be ${env:NAME}, ${file:PATH} or ${prompt:TEXT}.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Write JSON: one list, or with topics tail one object per line.", rich_help_panel=_PANEL
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=_PANEL)
    ] = False,  # for `_with_target`
) -> Target:
    def ask(label: str) -> str:
        return str(typer.prompt(label, hide_input=True, err=True))

    options = {} if command_config is None else read_config_file(command_config, ask)
    given = {"zookeeper": zookeeper, "bootstrap_server": bootstrap_server}
    # Addresses of different origins may be of different clusters.
    typed = {name for name in given if _is_typed(context, name)}
    if typed:
        options = {name: value for name, value in options.items() if name not in _ADDRESSES.values()}
    if typed or (_is_typed(context, "command_config") and not options.keys().isdisjoint(_ADDRESSES.values())):
        given = {name: given[name] for name in typed}
    options.update({_ADDRESSES[name]: value for name, value in given.items() if value is not None})
    return Target(options, Output(json), dry_run, yes)


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def exit_status(error: ZKafkaError | OSError) -> int:
    """Write an error to standard error as one line, and return its exit status: 2 for wrong options, else 1."""
    typer.echo(printable(" ".join(str(error).split())), err=True)
    return USAGE if isinstance(error, OptionError) else FAILED


def read_config_file(
    path: Path, prompt: Callable[[str], str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the options in a file of Java properties, as Kafka's tools take it with ``--command-config``.

    Options of this package (``zookeeper.*``, ``kafka.*``, ``listener.name``) keep their names. Every other name is a
    property of Kafka's clients, and is prefixed with ``kafka.``.
    A value may refer to a secret: ``${env:NAME}``, ``${file:PATH}`` (the whole file, without its final line break) or
    ``${prompt:TEXT}`` (asked for on the terminal). Raises OptionError if a file or variable cannot be read.
    """
    try:
        properties = javaproperties.loads(read_text(path))
    except ValueError:
        # The text of the error quotes the value, which may be a secret.
        text = f"--command-config {path} has no Java properties: \\u is not followed by four hexadecimal digits"
        raise INVALID_OPTION(f"{text}. Correct the file") from None
    options = {}
    for name, value in properties.items():
        try:
            resolved = resolve_references(value, environment)
        except ValueError as error:
            raise INVALID_OPTION(f"{name} in {path} {error}") from error
        option = name if name.startswith(_OWN_PREFIXES) else f"kafka.{name}"
        options[option] = _PROMPT.sub(lambda reference: prompt(reference[1]), resolved)
    return options


@dataclass(frozen=True)
class Servers:
    """Clients of a cluster, opened at first use, except `zookeeper`: it is open, or None if only brokers were given."""

    target: Target
    zookeeper: ZooKeeperClient | None
    opened: ExitStack

    def snapshot(self) -> ClusterSnapshot:
        """Return the brokers that ZooKeeper lists now, for `bootstrap_servers`; empty without ZooKeeper."""
        return ClusterSnapshot({}) if self.zookeeper is None else self.zookeeper.snapshot([])

    @cached_property
    def admin(self) -> KafkaAdmin:
        """A client of the brokers; ClusterStateError if there are none."""
        return self.opened.enter_context(self.target.brokers(self.snapshot()))

    @cached_property
    def brokers(self) -> GroupAdmin:
        """A client of the brokers and their groups; ClusterStateError if there are none."""
        return self.opened.enter_context(self.target.group_brokers(self.snapshot()))

    @cached_property
    def brokers_with_short_timeout(self) -> GroupAdmin:
        """A client for facts that a command can do without: its requests end after a few seconds."""
        return self.opened.enter_context(self.target.group_brokers(self.snapshot(), _SHORT_TIMEOUT_S))

    def require_zookeeper(self) -> ZooKeeperClient:
        """Return ZooKeeper; OptionError if it was not given."""
        if self.zookeeper is None:
            raise INVALID_OPTION(
                "This works on ZooKeeper's data; use --zookeeper (or ZKAFKA_ZOOKEEPER if no address is given)",
            )
        return self.zookeeper

    def read_groups(self, names: Iterable[str] | None, storage: OffsetsStorage) -> GroupReports:
        """Read groups with their logs, and their members in Kafka if the brokers answer soon."""
        return read_groups(
            self.zookeeper,
            lambda: self.brokers,
            names,
            storage=storage,
            brokers_with_short_timeout=lambda: self.brokers_with_short_timeout,
        )


@contextmanager
def open_servers(target: Target) -> Iterator[Servers]:
    """Open ZooKeeper, if it was given, and the brokers once they are needed."""
    with ExitStack() as opened:
        zookeeper = None if target.connection.zookeeper is None else opened.enter_context(target.zookeeper())
        yield Servers(target, zookeeper, opened)


def require_groups(groups: list[str] | None, all_groups: bool) -> list[str] | None:
    """Return the named groups, each once; None for all. Raises OptionError if neither was given, or both."""
    if bool(groups) == all_groups:
        raise INVALID_OPTION("Name one or more groups, or use --all-groups")
    return None if all_groups else list(dict.fromkeys(groups or ()))


def require_no_consumers(client: ZooKeeperConnection, group: str, activity: Activity, not_done: str) -> None:
    """Raise GroupError if a group has members or claims, with a remedy for znodes that outlive their consumers.

    `not_done` is the first clause of the message.
    """
    ids, owners = ids_path(group), owners_path(group)
    paths = [*(f"{ids}/{name}" for name in activity.members), *(f"{owners}/{claim}" for claim in activity.claims)]
    persistent = sorted(path for path, node in client.get_many(paths).items() if not node.stat.ephemeral_owner)
    if persistent:
        are = "is not ephemeral and stays" if len(persistent) == 1 else "are not ephemeral and stay"
        raise GROUP_ACTIVE(
            f"{not_done}: group {group} must be inactive, but {listing(persistent)} {are} when consumers end; stop the "
            "group's consumers, delete these znodes with ZooKeeper's zkCli.sh, and run this again",
            group=group,
        )
    require_inactive(group, activity, not_done)


def parse_pairs(texts: Iterable[str] | None, option: str, *, strict: bool = False) -> list[tuple[str, str]]:
    """Return the names and values of an option that is given as NAME=VALUE any number of times; raises BadParameter.

    With `strict`, a name has one value, which is not empty and does not contain ``=``.
    """
    found: list[tuple[str, str]] = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name or not name.isprintable() or (strict and (not value.strip() or "=" in value)):
            raise typer.BadParameter(f"found {text!r}; write NAME=VALUE", param_hint=option)
        if strict and name in dict(found):
            raise typer.BadParameter(f"{name} is given twice; give one value for each name", param_hint=option)
        found.append((name, value))
    return found


def parse_partitions(texts: Iterable[str]) -> list[PartitionSpec]:
    """Return topics and partitions from ``T`` and ``T:P,P``; raises OptionError for another form.

    >>> parse_partitions(["orders", "clicks:0,2"])
    [('orders', None), ('clicks', 0), ('clicks', 2)]
    """
    found: list[PartitionSpec] = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", numbers)):
            raise INVALID_OPTION(f"--topic {text!r} is not valid; write TOPIC, or TOPIC:0,1 for partitions")
        found += [(topic, int(number)) for number in numbers.split(",")] if colon else [(topic, None)]
    return found


def find_partitions(requested: Collection[PartitionSpec], snapshot: ClusterSnapshot) -> list[TopicPartition]:
    """Return the requested partitions, sorted. Raises UnknownTopic if a topic or partition does not exist."""
    existing = set(snapshot.all_partitions())
    topics = {topic for topic, number in requested if number is None}
    partitions = {TopicPartition(topic, number) for topic, number in requested if number is not None}
    unknown = [*sorted(topics - snapshot.topics.keys()), *sorted(partitions - existing)]
    if unknown:
        raise UNKNOWN_TOPIC(f"The cluster has no {listing(unknown)}; correct the names, or leave them out")
    return sorted(partitions | {tp for tp in existing if tp.topic in topics})


def require_topics(topics: Collection[str], existing: Collection[str]) -> None:
    """Raise UnknownTopic if one of the topics does not exist."""
    missing = sorted(set(topics).difference(existing))
    if missing:
        raise UNKNOWN_TOPIC(f"Topics do not exist: {', '.join(missing)}; see zkafka topics list")


def parse_text(option: str, text: str, parse: Callable[[str], Parsed]) -> Parsed:
    """Return the parsed text of an option; raises OptionError with the form that the parser's ValueError names."""
    try:
        return parse(text)
    except ValueError as error:
        raise INVALID_OPTION(f"{option} is {text!r}; expected {error}") from None


def read_text(file: Path | str) -> str:
    """Return the text of a file in UTF-8; ``-`` stands for the standard input. Raises OptionError if it cannot be read."""
    is_input = str(file) == "-"
    place, remedy = (
        ("standard input", "Convert it to UTF-8") if is_input else (f"file {file}", "Correct its name or its text")
    )
    try:
        # The locale of the standard input may be another one.
        return (sys.stdin.buffer.read() if is_input else Path(file).read_bytes()).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise INVALID_OPTION(f"The {place} cannot be read: {reason}. {remedy}") from error
