"""LocalSchemaRegistry, with a fake Java that fetches an archive and runs a web server."""

from __future__ import annotations

import shutil
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import LocalSchemaRegistry
from pyspark_zkafka.testing.jars import fetch_archive

SERVER = """\
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/apis/ccompat/v7/subjects" else 404)
        self.end_headers()
address = os.environ["QUARKUS_HTTP_HOST"], int(os.environ["QUARKUS_HTTP_PORT"])
http.server.HTTPServer(address, Handler).serve_forever()
"""


@pytest.fixture
def archive(fake_java: Any, tmp_path: Path) -> Any:
    """A fake Java that fetches a zip file with a program and its library."""
    content = tmp_path / "content"
    (content / "lib").mkdir(parents=True)
    (content / "app-runner.jar").write_text("program")
    (content / "lib" / "a.jar").write_text("library")
    made = shutil.make_archive(str(tmp_path / "app"), "zip", content)
    fake_java.does(f'cp "{made}" "$into/app-1.0-all.zip"')
    return fake_java


def test_archive(archive: Any) -> None:
    """An archive is fetched and unpacked once, and Ivy is asked for its type and classifier."""
    folder = fetch_archive("org.fake:app:1.0:zip:all")
    assert fetch_archive("org.fake:app:1.0:zip:all") == folder
    assert archive.count == 1
    assert (folder / "lib" / "a.jar").read_text() == "library"
    assert not list(folder.glob("*.zip"))
    asked = (archive.folder / "asked.xml").read_text()
    assert '<artifact name="app" type="zip" ext="zip" m:classifier="all" />' in asked


def test_life(archive: Any, tmp_path: Path) -> None:
    """The registry responds at its own port inside the block, and is gone afterwards."""
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    archive.runs_as(f'exec "{sys.executable}" "{program}"')
    with LocalSchemaRegistry() as registry:
        url = registry.url
        with urllib.request.urlopen(f"{url}/subjects", timeout=10) as answer:
            assert answer.status == 200
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}/subjects", timeout=10)
    with pytest.raises(LocalClusterError, match="CLUSTER_NOT_RUNNING"):
        _ = registry.url


def test_a_registry_that_ends(archive: Any) -> None:
    """A registry that ends during its start is an error with the end of its log."""
    archive.runs_as("echo no memory; exit 3")
    with pytest.raises(LocalClusterError, match=r"SERVER_DIED(?s:.*)exit status 3(?s:.*)no memory"), LocalSchemaRegistry():
        pass


def test_a_registry_that_does_not_answer(archive: Any) -> None:
    """A registry that does not respond in time is an error."""
    archive.runs_as("exec sleep 60")
    with pytest.raises(LocalClusterError, match=r"NOT_READY.* schema registry did not answer within 0 s"):
        LocalSchemaRegistry(startup_timeout_s=0.2).start()
