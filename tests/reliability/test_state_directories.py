"""A state directory, or an index in it, that cannot be used: questions and calls are answered."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import DEMO, WAIT_SECONDS, gateway, write_config
from tests.rig.faulty_disk import FaultyDisk
from tests.rig.recorded import monitoring
from tests.rig.scale import scaled
from tests.rig.small_servers import text_of

pytestmark = pytest.mark.slow

REFUSAL_SECONDS_MAX: Final = scaled(60.0, full=3.0)


# The index


def damage(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[:4096] + b"\xa5" * (len(raw) - 4096))


def of_a_later_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")


def in_the_way(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").touch()


@pytest.mark.parametrize("spoil", [damage, of_a_later_version, in_the_way])
def test_an_index_that_cannot_be_used_costs_no_answer(tmp_path: Path, spoil: Any) -> None:
    for attempt in range(2):
        with gateway(tmp_path) as client:
            client.initialize()
            text_of(client.call("demo__echo", {"text": f"{attempt}"}))
            began = time.monotonic()
            found = json.loads(
                text_of(client.call("get_events", {"event_type": "gateway.tool_call"}))
            )
            assert time.monotonic() - began < REFUSAL_SECONDS_MAX
            # A call that takes longer than a second is noted when it starts, too.
            echoes = [
                each
                for each in found
                if each["metadata"].get("tool") == "echo" and each["status"] != "pending"
            ]
            assert len(echoes) == attempt + 1
            if attempt:
                assert any("index" in each for each in monitoring(client)["warnings"])
            assert client.finish() == 0
        if attempt:
            assert b"The index of the journal" in client.stderr
        else:
            for side_file in ("-wal", "-shm"):
                (tmp_path / "state" / f"events.sqlite3{side_file}").unlink(missing_ok=True)
            spoil(tmp_path / "state" / "events.sqlite3")


@contextmanager
def locked(path: Path, how: str) -> Iterator[None]:
    """Another process keeps the index to itself."""
    code = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "for statement in sys.argv[2].split(';'):\n"
        "    db.execute(statement)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        yield
        other.stdin.close()
        other.wait(WAIT_SECONDS)


WRITES_ALONE: Final = "BEGIN IMMEDIATE"
READS_ALONE: Final = "PRAGMA journal_mode=DELETE;BEGIN EXCLUSIVE"


@pytest.mark.parametrize("how", [WRITES_ALONE, READS_ALONE])
def test_an_index_that_another_process_has_locked_is_told_of_soon(tmp_path: Path, how: str) -> None:
    index = tmp_path / "state" / "events.sqlite3"
    with gateway(tmp_path) as client:
        client.initialize()
        text_of(client.call("get_events", {"limit": 1}))
        assert client.finish() == 0
    with gateway(tmp_path) as client:
        client.initialize()
        with locked(index, how):
            began = time.monotonic()
            answer = json.dumps(client.call("get_events", {"limit": 1}))
            assert time.monotonic() - began < REFUSAL_SECONDS_MAX
            told = json.dumps(monitoring(client).get("warnings", ""))
            assert "may be missing" in answer or "database is locked" in told, (answer, told)
            assert text_of(client.call("demo__echo", {"text": "calls go on"})) == "calls go on"
        assert len(json.loads(text_of(client.call("get_events", {"limit": 1})))) == 1
        assert client.finish() == 0
    assert not index.with_name("events.sqlite3.unusable").exists()


# The state directory


def file_in_the_way(state: Path) -> None:
    state.write_bytes(b"a file")


def file_within(state: Path) -> None:
    state.mkdir()
    (state / "events").write_bytes(b"a file")


@pytest.mark.parametrize("spoil", [file_in_the_way, file_within])
def test_where_no_state_can_be_kept_calls_are_served_all_the_same(
    tmp_path: Path, spoil: Any
) -> None:
    spoil(tmp_path / "state")
    with gateway(tmp_path) as client:
        client.initialize()
        assert text_of(client.call("demo__echo", {"text": "on"})) == "on"
        assert monitoring(client)["enabled"] is False
        assert client.finish() == 0
    assert b"What to do: " in client.stderr
    assert b"--state-dir" in client.stderr


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["stdio"]])
@pytest.mark.parametrize("spoil", [file_in_the_way, file_within])
def test_a_gateway_that_must_record_and_cannot_does_not_begin(
    tmp_path: Path, spoil: Any, command: list[str]
) -> None:
    spoil(tmp_path / "state")
    config = write_config(tmp_path, {"demo": DEMO}, record={"onFailure": "block"})
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "anyport", *command),
            *("--config", str(config), "--state-dir", str(tmp_path / "state")),
        ],
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stdout == b""
    assert b"What to do: " in ended.stderr
    assert b'record.onFailure is "block"' in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_a_read_only_state_directory_is_told_of(tmp_path: Path, shim: FaultyDisk) -> None:
    (tmp_path / "state").mkdir()
    with (
        shim.disk(error="EROFS", calls=("open", "write", "pwrite")),
        gateway(tmp_path) as client,
    ):
        client.initialize()
        assert text_of(client.call("demo__echo", {"text": "on"})) == "on"
        assert monitoring(client)["last_error"].endswith("Read-only file system")
        assert client.finish() == 0
    assert b"findmnt" in client.stderr


def test_a_state_directory_that_is_removed_is_made_again(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with gateway(tmp_path) as client:
        client.initialize()
        text_of(client.call("demo__echo", {"text": "before"}))
        text_of(client.call("get_events", {"limit": 1}))
        shutil.rmtree(state)
        began = time.monotonic()
        while not list(state.glob("events/*/events.jsonl")):
            assert text_of(client.call("demo__echo", {"text": "after"})) == "after"
            assert time.monotonic() - began < WAIT_SECONDS
            time.sleep(0.1)
        found = json.loads(text_of(client.call("get_events", {"event_type": "gateway.tool_call"})))
        assert "after" not in json.dumps(found)  # Arguments are no part of an event.
        assert found
        assert client.finish() == 0
    assert os.path.isdir(state)
