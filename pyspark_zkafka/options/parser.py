"""Read options according to their rows in the table, and collect the problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark_zkafka.conditions import INVALID_OPTIONS, TABLE_WITHOUT_OPTIONS
from pyspark_zkafka.errors import OptionError, nearest
from pyspark_zkafka.options.client_properties import is_secret
from pyspark_zkafka.options.option import STREAM, Option, Scope
from pyspark_zkafka.options.table import BY_NAME, TABLE
from pyspark_zkafka.options.values import options_of_fields, refers, resolve_references

_TABLE_OPTION = "option."
_RACK = "kafka.client.rack"


class OptionParser:
    """Parser of the options of one read, stream or write. `finish` raises all problems at once.

    Names are case-insensitive. A name that the table does not have for the scope is a problem, except that a batch read
    ignores options of streams. Secret options may refer to environment variables and files; see `resolve_references`. The
    rack of a read may refer to variables of the executors; see `task_rack`.

    Raises OptionError (TABLE_WITHOUT_OPTIONS) if Spark passes the properties of a table, to ask for the table's columns.
    """

    def __init__(self, raw: Mapping[str, str], scope: Scope) -> None:
        if any(name.lower().startswith(_TABLE_OPTION) for name in raw):
            raise TABLE_WITHOUT_OPTIONS(
                "Spark does not pass the options of CREATE TABLE to a Python data source. Use CREATE TEMPORARY VIEW; or "
                "list the columns of the table, leave OPTIONS out, and add WITH (...) to its name in each query",
            )
        self.scope = scope
        self.problems: list[str] = []
        self.raw = {name.lower(): (name, self._resolve(name, str(value))) for name, value in raw.items()}
        self._check_names()
        self._values: dict[str, Any] = {}
        for option in TABLE:
            if self.scope in option.scopes and self.has(option.name) and not option.name.startswith("kafka."):
                self._read(option)
                self._check_rules(option)

    def _resolve(self, name: str, value: str) -> str:
        option = BY_NAME.get(name.lower())
        if not (is_secret(name) if option is None else option.secret):
            of_task = name.lower() == _RACK and self.scope != "write"
            is_schema = name.lower().endswith(".schema")
            if refers(value) and not is_schema and not (of_task and refers(value, only="env")):
                self.problems.append(
                    f"{name} is {value!r}. Write the value itself: only secrets may refer to ${{env:NAME}} or "
                    f"${{file:PATH}}, and {_RACK} of a read to ${{env:NAME}} of the executor"
                )
            return value
        try:
            return resolve_references(value)
        except ValueError as error:
            self.problems.append(f"{name} {error}")
            return value

    def _check_names(self) -> None:
        for lower, (name, _) in self.raw.items():
            option = BY_NAME.get(lower)
            if lower.startswith("kafka.") or (option is not None and self.scope in option.scopes):
                continue
            if option is None:
                near = nearest(lower, BY_NAME) or f"kafka.{lower}"
                hint = f"did you mean {BY_NAME[near].name}?" if near in BY_NAME else "docs/options.md lists all options"
                self.problems.append(f"unknown option {name}; {hint}")
            elif option.scopes != STREAM or self.scope != "read":
                self.problems.append(f"{option.name} is an option of a {' or '.join(option.scopes)}, not of a {self.scope}")

    def _read(self, option: Option) -> None:
        try:
            self._values[option.name] = option.kind.read(option.name, self.text(option.name))
        except OptionError as error:
            self.problems.append(error.message)
        except ValueError as error:
            found = "malformed" if option.secret else repr(self.text(option.name))
            self.problems.append(f"{option.name} is {found}; expected {error}")

    def _check_rules(self, option: Option) -> None:
        """Report the first rule that a given option breaks."""
        for rule in option.rules:
            is_met = any(self.word(name) in rule.values if rule.values else self.has(name) for name in rule.names)
            if is_met is rule.excludes and (not rule.when or self.word(option.name) in rule.when):
                name = f"{option.name}={self.text(option.name)}" if rule.when else option.name
                found = f"{rule.names[0]}={self.word(rule.names[0])}"
                self.problems.append(f"{name} {rule.problem.replace('{found}', found)}")
                return

    @property
    def joins_kafka(self) -> bool:
        """True if the options alone say that a stream joins a group in Kafka."""
        named = self.text("groupMembership").lower()
        is_auto = named in ("", "auto") and self.has("group.id") and not self.has("zookeeper.connect")
        return self.scope == "stream" and (named == "kafka" or is_auto)

    def has(self, name: str) -> bool:
        """True if the option was given."""
        return name.lower() in self.raw

    def text(self, name: str) -> str:
        """Return the given text, stripped. Empty if the option was not given."""
        return self.raw.get(name.lower(), (name, ""))[1].strip()

    def word(self, name: str) -> str:
        """Return the given text or the row's default, in lower case. Empty if there is neither.

        `groupMembership` is kafka if the stream joins a group in Kafka by default.
        """
        if name == "groupMembership" and self.joins_kafka:
            return "kafka"
        option = BY_NAME[name.lower()]
        return ((self.text(name) if self.scope in option.scopes else "") or option.default or "").lower()

    def value(self, name: str, derived: Any = None) -> Any:
        """Return the value as the option's row reads it. If it was not given, or is malformed, return the default.

        `derived` is the default of an option whose row has no default.
        """
        option = BY_NAME[name.lower()]
        if option.name in self._values:
            return self._values[option.name]
        return derived if option.default is None else option.default_value()

    def fields(self, values: type, column: str = "") -> dict[str, Any]:
        """Return values for the fields of a dataclass that are annotated with the names of options.

        In the names of options, ``{column}`` stands for `column`.
        """
        return {name: self.value(option.format(column=column)) for name, option in options_of_fields(values).items()}

    def refuse_if(self, condition: bool, problem: str) -> None:
        """Add a problem if the condition is true."""
        if condition:
            self.problems.append(problem)

    def finish(self) -> None:
        """Raise INVALID_OPTIONS with all problems, if there are any."""
        if self.problems:
            listed = "; ".join(f"({i}) {p}" for i, p in enumerate(self.problems, 1))
            text = f"{len(self.problems)} problem(s) with the options: {listed}"
            if not self.raw:
                text += ". After the name of a table, SQL gives options by WITH (name = 'value', ...)"
            raise INVALID_OPTIONS(text, problems=tuple(self.problems))
