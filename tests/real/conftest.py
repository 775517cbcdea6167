"""What the tests with real servers and clients need to have around them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from tests.harness import Message, write_config
from tests.real import rig

LIST_SECONDS = 60
"""A list waits for the slowest of the servers, however busy the machine is: as long as it may."""


def chosen(every: Sequence[Any], *some: Any) -> list[ParameterSet]:
    """All of them, for `parametrize`: some for `make test`, the others for `make test-all`."""
    assert {*some} <= {*every}
    return [pytest.param(one, marks=() if one in some else pytest.mark.exhaustive) for one in every]


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """Fail, not skip: a run that asked for real tests and had none must not look good."""
    if missing := rig.missing():
        pytest.fail(f"{', '.join(missing)} not installed: run tests/real/install", pytrace=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with one commit."""
    return make_repository(tmp_path / "repository")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file."""
    return make_folder(tmp_path / "folder")


def make_repository(place: Path) -> Path:
    """Make a git repository with one commit."""
    make_folder(place)
    someone = ["-c", "user.name=Someone", "-c", "user.email=someone@example.com"]
    for arguments in (["init", "-q"], ["add", "."], [*someone, "commit", "-q", "-m", "First"]):
        subprocess.run(["git", *arguments], cwd=place, check=True)
    return place


def make_folder(place: Path) -> Path:
    """Make a folder with one file."""
    place.mkdir()
    (place / "hello.txt").write_text("hello\n")
    return place


@pytest.fixture
def page() -> Iterator[str]:
    """The address of a page on this machine."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html><body><p>A page of this machine.</p></body></html>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: pytest shows stderr of its own tests only."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as web:
        serving = threading.Thread(target=web.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{web.server_port}/"
        finally:
            web.shutdown()
            serving.join()


@pytest.fixture
def everyone(tmp_path: Path, repository: Path, folder: Path) -> dict[str, Message | list[str]]:
    """All the real servers: six that are published, one on an old SDK and one on a new one."""
    return {
        "time": rig.server("time"),
        "git": rig.server("git", repository),
        "fetch": rig.server("fetch"),
        "everything": rig.server("everything"),
        "filesystem": rig.server("filesystem", folder),
        "memory": rig.server("memory", tmp_path / "graph.jsonl"),
        "old": rig.server("old_python"),
        "modern": rig.server("modern_python"),
    }


@pytest.fixture
def target(tmp_path: Path, everyone: dict[str, Message | list[str]]) -> list[str]:
    """The command line of a gateway with all of them in one profile."""
    config = write_config(tmp_path, everyone, gateway={"listSeconds": LIST_SECONDS})
    options = ["--config", str(config), "--state-dir", str(tmp_path / "state")]
    return [sys.executable, "-m", "anyport", "stdio", *options]
