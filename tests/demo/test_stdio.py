"""Lines cut from bytes, from pipes and from files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyport.demo.stdio import LineCutter

COMMAND = [sys.executable, "-m", "anyport.demo"]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b""))), st.data())
def test_lines_do_not_depend_on_how_the_bytes_arrive(
    lines: list[bytes], draw: st.DataObject
) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cutter = LineCutter()
    cut: list[bytes | None] = []
    while stream:
        size = draw.draw(st.integers(1, len(stream)))
        cut += cutter.feed(stream[:size])
        stream = stream[size:]

    assert cut == lines
    assert list(cutter.finish()) == []


def test_the_last_line_needs_no_end() -> None:
    cutter = LineCutter()

    assert list(cutter.feed(b"one\ntwo")) == [b"one"]
    assert list(cutter.finish()) == [b"two"]


def test_a_line_that_is_too_long_is_dropped_and_the_next_one_kept() -> None:
    cutter = LineCutter(line_bytes_max=4)

    assert list(cutter.feed(b"12345")) == []
    assert list(cutter.feed(b"6789\n1234\n12345\n")) == [None, b"1234", None]
    assert list(cutter.feed(b"12345")) == []
    assert list(cutter.finish()) == [None]


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n\n"])
def test_files_can_stand_for_pipes(tmp_path: Path, end: bytes) -> None:
    asked, answered = tmp_path / "in", tmp_path / "out"
    asked.write_bytes(PING + end)

    with asked.open("rb") as source, answered.open("wb") as sink:
        ended = subprocess.run(COMMAND, stdin=source, stdout=sink, check=True)

    assert ended.returncode == 0
    assert json.loads(answered.read_bytes()) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_reader_that_goes_away_ends_the_server() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(PING + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1

        process.stdout.close()

        assert process.wait(20) == 0
