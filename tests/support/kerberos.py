"""A KDC of MIT Kerberos on this machine, and the library gssapi for clients."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark_zkafka.testing.jars import cache_folder, made_once
from pyspark_zkafka.testing.processes import LOOPBACK, ServerProcesses
from tests.support.eventually import eventually

__all__ = ["REALM", "Kdc"]

REALM = "ZKAFKA.TEST"
_ROOT = Path(__file__).resolve().parents[2]
_BUILD = Path(__file__).with_suffix(".sh")
_TOOLS = ("apt-get", "cc", "dpkg")
_INSTALL = "on Debian or Ubuntu, run apt-get install gcc python3-dev"
_CONFIG = """
[libdefaults]
default_realm = {realm}
dns_canonicalize_hostname = false
dns_lookup_kdc = false
rdns = false
[realms]
{realm} = {{
kdc = {kdc}
kdc_listen = {kdc}
kdc_tcp_listen = {kdc}
database_module = files
key_stash_file = {folder}/stash
}}
[dbmodules]
db_module_dir = {lib}/krb5/plugins/kdb
files = {{
db_library = db2
database_name = {folder}/principals
}}
[logging]
kdc = STDERR
"""


def _build(into: Path, lock: int) -> None:
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    assert not missing, f"tests of Kerberos need {', '.join(missing)}; {_INSTALL}"
    command = ["bash", _BUILD, sys.executable, sysconfig.get_config_var("MULTIARCH") or "."]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=into, stdin=subprocess.DEVNULL, check=False, pass_fds=[lock], **output)
    assert done.returncode == 0, f"{_BUILD.name} ended with {done.returncode}; {_INSTALL}\n{done.stdout[-3000:]}"


class Kdc:
    """The KDC of a realm with some principals, for a `with` block.

    The first use of a user and a Python builds what servers and clients need into the cache folder, in half a minute.
    """

    def __init__(self, *principals: str) -> None:
        self._principals = principals
        digest = hashlib.sha256(_BUILD.read_bytes()).hexdigest()[:12]
        self._client = made_once(cache_folder() / "kerberos" / f"{sysconfig.get_config_var('SOABI')}-{digest}", _build)
        self._lib = Path("usr", "lib", sysconfig.get_config_var("MULTIARCH") or ".")
        self._processes = ServerProcesses()

    def __enter__(self) -> Kdc:
        self._processes.open()
        folder, self._address = self._processes.folder, (LOOPBACK, self._processes.port("kdc"))
        self.config = folder / "krb5.conf"
        values = {"kdc": "{}:{}".format(*self._address), "folder": folder, "lib": self._client / self._lib}
        self.config.write_text(_CONFIG.format(realm=REALM, **values))
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", secrets.token_hex())
        for principal in self._principals:
            self._run("kadmin.local", "addprinc", "-randkey", principal)
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._processes.close()

    def start(self) -> None:
        """Start the KDC; returns when it accepts connections."""
        self._processes.start("kdc", ["krb5kdc", "-n", "-P", f"{self._processes.folder}/pid"], self.environ("kdc"))
        eventually(self._accepts, message=lambda: self._processes.log_tail("kdc"))

    @contextmanager
    def down(self) -> Iterator[None]:
        """Clients cannot connect to the KDC for a block."""
        assert self._processes.end("kdc", signal.SIGTERM, 30)
        yield
        self.start()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """The KDC does not answer for a block."""
        self._processes.send("kdc", signal.SIGSTOP)
        yield
        self._processes.send("kdc", signal.SIGCONT)

    def keytab(self, principal: str) -> str:
        """A file with the keys of a principal."""
        file = str(self._processes.folder / f"{secrets.token_hex(4)}.keytab")
        self._run("kadmin.local", "ktadd", "-norandkey", "-k", file, principal)
        return file

    def shorten_tickets(self, principal: str, seconds: int) -> None:
        """Let the next tickets of a principal last for some seconds."""
        self._run("kadmin.local", "modprinc", "-maxlife", f"{seconds}s", principal)

    def change_keys(self, principal: str) -> None:
        """Replace the keys of a principal: files with the old ones are no longer valid."""
        self._run("kadmin.local", "cpw", "-randkey", principal)

    def jaas(self, principal: str) -> str:
        """The login of a Java server that accepts, and opens, connections."""
        module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        return f'{module} keyTab="{self.keytab(principal)}" principal="{principal}@{REALM}";'

    def logins(self, principal: str) -> int:
        """How often clients have logged in as the principal with a keytab."""
        log = self._processes.log("kdc").read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE" in line and f" {principal}@{REALM} for krbtgt/" in line for line in log)

    def environ(self, tickets: str) -> dict[str, str]:
        """The environment of a client with gssapi, which shares its tickets with clients of the same name alone."""
        client = self._client
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": os.devnull,
            "KRB5CCNAME": f"FILE:{self._processes.folder}/{tickets}.tickets",
            "LD_LIBRARY_PATH": f"{client / self._lib}",
            "PATH": f"{client}/usr/bin:{client}/usr/sbin:{os.environ['PATH']}:/usr/sbin",
            "PYTHONPATH": f"{client}/python:{_ROOT}",
        }

    def _accepts(self) -> bool:
        self._processes.raise_if_dead("kdc")
        with socket.socket() as probe:
            return probe.connect_ex(self._address) == 0

    def _run(self, *command: str) -> None:
        environ = {**os.environ, **self.environ("kdc")}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
