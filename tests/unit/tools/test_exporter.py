"""Parameters of the exporter."""

from __future__ import annotations

import errno
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.tools import app
from pyspark_zkafka.tools.exporter import all_addresses, parse_address, parse_filter

EXPORTER = [sys.executable, "-m", "pyspark_zkafka.tools", "exporter", "--zookeeper", "127.0.0.1:1"]


def _in_a_container() -> list[str]:
    """Return the command that runs another one as process 1 of a namespace, or nothing if this machine forbids it."""
    command = ["unshare", "--pid", "--fork", "--kill-child"]
    is_allowed = shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0
    return command if is_allowed else []


def test_sigterm_of_process_1() -> None:
    """SIGTERM ends the exporter in a container, too, although the signal's default action does not apply to process 1."""
    command = [*_in_a_container(), *EXPORTER, "--listen-address", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert "/metrics; Ctrl-C ends." in process.stderr.readline()
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            subprocess.run(["kill", "-TERM", *(children or [str(process.pid)])], check=True)
            assert process.wait(120) == 0
        finally:
            process.kill()


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_without_a_host() -> None:
    """Without a host, the exporter accepts connections by IPv4, and by IPv6 if this machine has it."""
    with subprocess.Popen([*EXPORTER, "--listen-address", ":0"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            note = process.stderr.readline()
            port = int(note.partition("http://localhost:")[2].partition("/metrics")[0])
            for host in ("127.0.0.1", "::1") if _has_ipv6() else ("127.0.0.1",):
                socket.create_connection((host, port), timeout=60).close()
        finally:
            process.kill()


def test_all_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without IPv6, and where its sockets refuse IPv4, all addresses are IPv4's."""
    monkeypatch.setattr(socket.socket, "getsockopt", lambda *_: 1)
    assert all_addresses() == "0.0.0.0"

    def no_family(*_: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", no_family)
    assert all_addresses() == "0.0.0.0"


@pytest.mark.parametrize("text", ["9308x", ":", ":99999", "::1:9308", "host", ":-1"])
def test_malformed_addresses(text: str) -> None:
    """A malformed address is a wrong option, and the error quotes it."""
    with pytest.raises(OptionError, match=f"--listen-address is {re.escape(text)}; use HOST:PORT"):
        parse_address(text)


def test_a_port_that_another_program_has() -> None:
    """An address that is in use is a wrong option, and the error has its name and the reason."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = CliRunner().invoke(app, ["exporter", "--zookeeper", "127.0.0.1:1", "--listen-address", address])
    assert result.exit_code == 2
    assert result.stderr == (
        f"[INVALID_OPTION] --listen-address {address} cannot be used: Address already in use. Choose another port, or end "
        "the program that has this one\n"
    )


@pytest.mark.parametrize(
    ("address", "remedy"),
    [("nosuch.invalid:0", "Use a host name"), ("192.0.2.1:0", "Use an address of this machine")],
)
def test_an_address_of_another_machine(address: str, remedy: str) -> None:
    """The error for an unknown host or a foreign address has the remedy."""
    result = CliRunner().invoke(app, ["exporter", "--zookeeper", "127.0.0.1:1", "--listen-address", address])
    assert result.exit_code == 2
    assert f"--listen-address {address} cannot be used: " in result.stderr
    assert remedy in result.stderr


@pytest.mark.parametrize("text", ["(", "a{99999999999999999999}", "(" * 5000 + ")" * 5000])
def test_a_malformed_filter(text: str) -> None:
    """A malformed regex, or one that Python cannot compile, is a wrong option, and the error names it."""
    with pytest.raises(OptionError, match=r"--group-filter cannot be used: .*\. Correct the regular expression"):
        parse_filter("--group-filter", text)


def test_filters_find_a_part_of_the_name() -> None:
    """As with kafka_exporter, a filter matches anywhere in the name, and everything by default."""
    assert parse_filter("--topic-filter", "").search("orders")
    assert parse_filter("--group-filter", "^bill").search("billing")
    assert not parse_filter("--group-filter", "^bill").search("rebilling")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--zookeeper", "z:1", "--listen-address", "x"], "--listen-address is x"),
        (["--bootstrap-server", "k:1", "--offsets-storage", "both"], "works on ZooKeeper's data; use --zookeeper"),
        ([], "No cluster is given"),
        (["--zookeeper", "z:1", "--timeout", "inf"], "--timeout"),
    ],
)
def test_wrong_options_are_refused(options: list[str], problem: str) -> None:
    """Wrong options end the command at once with exit status 2."""
    result = CliRunner().invoke(app, ["exporter", *options])
    assert result.exit_code == 2
    assert problem in result.stderr


def test_without_prometheus_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """If prometheus-client is not installed, the error names the extra that contains it."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "pyspark_zkafka.tools.collector", raising=False)
    result = CliRunner().invoke(app, ["exporter", "--zookeeper", "z:1"])
    assert result.exit_code == 2
    assert "pip install 'pyspark-zkafka[metrics]'" in result.stderr
