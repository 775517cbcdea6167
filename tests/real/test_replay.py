"""Sessions of real clients with real servers: recorded, exported, and replayed with no difference.

Once against the servers themselves and once through a gateway. What may differ is what can never
be the same twice, ids and times, and every replay says that it passed that over.

`make test` has a client of every era and language, `make test-all` every client.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Message, gateway, write_config
from tests.real import rig
from tests.real.conftest import LIST_SECONDS, chosen

pytestmark = pytest.mark.real

ZONES = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo", "time": "12:00"}
ADA = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["counts"]}
SETTINGS: dict[str, Any] = {
    "gateway": {"listSeconds": LIST_SECONDS},
    "record": {"capture": "full"},
}
DOCUMENT = "demo://resource/static/document/features.md"


@pytest.fixture
def steady(tmp_path: Path, everyone: dict[str, Message | list[str]]) -> None:
    """Of all servers those that say the same thing twice.

    The filesystem server asks for roots whenever it gets to it, within a call or before: no two
    sessions with it are alike. It has a test of its own below, with a client without.
    """
    # What the memory server remembers; nothing is added to it, so that it stays the same.
    (tmp_path / "graph.jsonl").write_text(json.dumps(ADA) + "\n")
    everyone["time"] = rig.one_day_time()
    del everyone["filesystem"]


@pytest.mark.parametrize("client", chosen(rig.CLIENTS, "py1-6", "py2", "ts1", "ts2-modern"))
@pytest.mark.usefixtures("steady")
def test_a_session_of_a_client_is_replayed_without_a_difference(
    tmp_path: Path,
    everyone: dict[str, Message | list[str]],
    repository: Path,
    page: str,
    client: str,
) -> None:
    place = _Place(tmp_path, everyone)
    steps = [
        {"do": "list", "what": "tools"},
        {"do": "list", "what": "resources"},
        {"do": "list", "what": "prompts"},
        _call("time__convert_time", **ZONES),
        _call("time__get_current_time", timezone="UTC"),
        _call("git__git_log", repo_path=str(repository), max_count=1),
        _call("git__git_show", repo_path=str(repository), revision="no-such-revision"),
        _call("fetch__fetch", url=page),
        _call("everything__echo", message="héllo 🌍"),
        _call("everything__get-structured-content", location="Chicago"),
        _call("everything__get-tiny-image"),
        _call("memory__read_graph"),
        _call("old__add", a=1, b=2),
        _call("modern__add", a=1, b=2),
        _call("nobody__nothing"),
        {"do": "read", "uri": DOCUMENT},
        {"do": "prompt", "name": "everything__args-prompt", "arguments": {"city": "Bonn"}},
    ]
    seen = rig.client(client, steps, place.gateway)
    assert len(rig.of(seen, "result")) + len(rig.of(seen, "error")) == len(steps) - 3
    place.export()

    direct = place.replay()
    through = place.replay("--profile", "default")

    _assert_same(direct, calls=11)
    _assert_same(through, calls=12)
    assert {case["method"] for case in through} >= {"tools/list", "resources/read", "prompts/get"}


ASKED = ("py1", "ts1", "py2-modern", "ts2-modern", "fm-legacy")


@pytest.mark.parametrize("client", chosen(ASKED, "py2-modern", "fm-legacy"))
def test_what_a_server_asked_in_between_is_answered_as_before(tmp_path: Path, client: str) -> None:
    everyone: dict[str, Message | list[str]] = {
        "everything": rig.server("everything"),
        "modern": rig.server("modern_python"),
    }
    place = _Place(tmp_path, everyone)
    steps = [
        {"do": "list", "what": "tools"},
        _call("modern__ask"),
        _call("modern__think"),
        _call("modern__look"),
        _call("everything__trigger-elicitation-request"),
        _call("everything__trigger-sampling-request", prompt="Hello", maxTokens=7),
    ]
    seen = rig.client(client, steps, place.gateway)
    assert len(rig.of(seen, "asked")) >= 3
    place.export()

    _assert_same(place.replay("--profile", "default"), calls=5)


def test_files_are_read_again(tmp_path: Path, folder: Path) -> None:
    servers = {"files": rig.server("filesystem", folder)}
    place = _Place(tmp_path, servers)
    place.meet()
    with gateway(tmp_path, servers, **SETTINGS) as client:
        client.initialize()
        for name in ("hello.txt", "nothing.txt"):
            client.call("files__read_text_file", {"path": str(folder / name)})
        client.call("files__list_directory", {"path": str(folder)})
        client.call("files__get_file_info", {"path": str(folder / "hello.txt")})
        client.request("tools/list")
        assert client.finish() == 0
    place.export()

    direct, through = place.replay(), place.replay("--profile", "default")
    _assert_same(direct, calls=4)
    _assert_same(through, calls=4)
    assert [case["result"] for case in through if case["method"] == "tools/list"] == ["same"]


@pytest.mark.parametrize("client", chosen(("py1", "ts2-modern"), "py1"))
def test_servers_behind_a_url_are_asked_again(tmp_path: Path, client: str) -> None:
    with rig.listening("everything-http", "everything-sse", "modern-http") as urls:
        servers: dict[str, Message | list[str]] = {
            name.replace("-", ""): {"url": url} for name, url in urls.items()
        }
        place = _Place(tmp_path, servers)
        steps = [
            {"do": "list", "what": "tools"},
            _call("everythinghttp__echo", message="one"),
            _call("everythingsse__echo", message="two"),
            _call("modernhttp__add", a=1, b=2),
        ]
        seen = rig.client(client, steps, place.gateway)
        assert len(rig.of(seen, "result")) == 3
        place.export()

        _assert_same(place.replay(), calls=3)
        _assert_same(place.replay("--profile", "default"), calls=3)


class _Place:
    """A gateway that records everything, and what becomes of the recording."""

    def __init__(self, folder: Path, servers: Mapping[str, Message | list[str]]) -> None:
        config = write_config(folder, servers, **SETTINGS)
        self._state = folder / "state"
        self._options = ["--config", str(config), "--state-dir", str(self._state)]
        self._file = folder / "export.jsonl"

    @property
    def gateway(self) -> list[str]:
        return [sys.executable, "-m", "anyport", "stdio", *self._options]

    def meet(self) -> None:
        """See the servers once, unrecorded: what `initialize` declares depends on that."""
        run = self._run("tools")
        assert run.returncode == 0, run.stderr
        for kept in self._state.iterdir():
            if kept.is_dir() and kept.name != "lists":
                shutil.rmtree(kept)

    def export(self) -> None:
        run = self._run("export", "-o", str(self._file))
        assert run.returncode == 0, run.stderr

    def replay(self, *options: str) -> list[dict[str, Any]]:
        """Every case that was played, and what came of it."""
        run = self._run("replay", str(self._file), "--yes", "--json", *options)
        assert run.returncode in (0, 1), run.stderr
        cases: list[dict[str, Any]] = json.loads(run.stdout)["cases"]
        return [case for case in cases if case["result"] != "skipped"]

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "anyport", *words, *self._options],
            capture_output=True,
            text=True,
            timeout=rig.RUN_SECONDS_MAX,
            check=False,
        )


def _assert_same(cases: Sequence[dict[str, Any]], *, calls: int) -> None:
    # The everything server adds tools a while after its handshake: what a list of all tools shows
    # depends on when it was asked. A list that does not change has a test of its own.
    differing = [
        case for case in cases if case["result"] != "same" and case["method"] != "tools/list"
    ]
    assert not differing, json.dumps(differing, indent=1)
    called = [case for case in cases if case["method"] == "tools/call" and "#" not in case["case"]]
    assert len(called) >= calls


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"do": "call", "name": name, "arguments": arguments}
