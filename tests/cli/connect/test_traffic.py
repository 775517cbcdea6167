"""Files that `anyport export` has written."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyport.cli.connect.traffic import is_export, is_har, names_missing_file, read_export
from anyport.cli.exit_codes import CommandFailed
from tests.cli.running import Running, Session, running
from tests.cli.stage import Stage, tiny_entry
from tests.harness import WAIT_SECONDS

ROW = {"row": {"timestamp": "t", "trace_id": "1", "kind": "exchange", "status": "success"}}


def written(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "some.jsonl"
    file.write_text("\n".join(lines))
    return file


def test_an_export_is_known_by_its_first_line(tmp_path: Path) -> None:
    assert is_export(written(tmp_path, "", json.dumps(ROW), "x"))
    for line in ("x", "[]", '{"jsonrpc":"2.0","method":"ping"}'):
        assert not is_export(written(tmp_path, line, json.dumps(ROW)))


def test_an_http_archive_is_known_by_its_entries(tmp_path: Path) -> None:
    assert is_har(written(tmp_path, "{", '"log": {"version": "1.2", "entries": []}', "}"))
    for line in ("x", "", '{"log": 1}', '{"jsonrpc":"2.0","method":"ping"}', "[" * 100_000):
        assert not is_har(written(tmp_path, line))


def test_its_rows_are_read_and_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, json.dumps(ROW), "", json.dumps(ROW))
    assert [each.row.kind for each in read_export(file)] == ["exchange"] * 2

    with pytest.raises(CommandFailed, match=r"some\.jsonl:2 is not a line of an export"):
        list(read_export(written(tmp_path, json.dumps(ROW), "x")))


def test_a_word_that_is_meant_as_a_file_is_known(tmp_path: Path) -> None:
    assert names_missing_file("some.jsonl")
    assert names_missing_file(str(tmp_path / "nothing"))
    assert not names_missing_file(str(tmp_path))
    for word in ("server:github", "limit", "uri:file:///a/b", "00f067aa"):
        assert not names_missing_file(word)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway that keeps what is said; one call of the tiny server has been made."""
    folder = tmp_path_factory.mktemp("full")
    config = {
        "mcpServers": {"tiny": tiny_entry(folder / "notes")},
        "record": {"capture": "full"},
    }
    file = folder / "anyport.json"
    file.write_text(json.dumps(config))
    with running("--config", str(file), "--state-dir", str(folder / "state")) as gateway:
        call(gateway, "hello")
        yield gateway


def call(gateway: Running, text: str) -> None:
    response = Session(gateway).post(
        "tools/call", {"name": "tiny__say", "arguments": {"text": text}}
    )
    assert response.status == 200
    response.read()


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_row_elsewhere_is_shown_with_what_was_said(stage: Stage, full: Running) -> None:
    ran = stage.run("traffic", "tool:say", "text:hello", "--json", "--url", full.url)
    assert (ran.code, ran.err) == (0, "")
    [row] = rows(ran.out)
    assert (row["method"], row["outcome"]) == ("tools/call", "ok")

    ran = stage.run("show", row["id"][:9], "--json", "--url", full.url)
    [detail] = rows(ran.out)
    assert detail["row"] == row
    assert "hello" in json.dumps(detail["frames"])


def test_everything_elsewhere_can_be_exported(stage: Stage, full: Running) -> None:
    ran = stage.run("export", "-method:ping", "--url", full.url)
    assert ran.code == 0
    exported = [json.loads(line) for line in ran.out.splitlines()]
    methods = [line["row"].get("method") for line in exported]
    assert {"initialize", "tools/list", "tools/call"} <= set(methods)
    moments = [line["row"]["timestamp"] for line in exported]
    assert moments == sorted(moments)

    har = json.loads(stage.run("export", "--format", "har", "--url", full.url).out)
    assert {entry["_anyport"]["leg"] for entry in har["log"]["entries"]} == {"client"}


def test_the_newest_rows_are_given_however_many_pages_that_takes(
    stage: Stage, full: Running
) -> None:
    everything = rows(stage.run("traffic", "--json", "--url", full.url).out)
    newest = rows(stage.run("traffic", "-n", "3", "--json", "--url", full.url).out)
    assert [row["id"] for row in newest] == [row["id"] for row in everything[-3:]]


def test_following_elsewhere_goes_on_with_what_passes_there(stage: Stage, full: Running) -> None:
    command = [sys.executable, "-m", "anyport", "traffic", "-f", "--json", "--url", full.url]
    with subprocess.Popen(
        [*command, "tool:say"], stdout=subprocess.PIPE, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline()]
        call(full, "again")
        seen.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert process.wait(WAIT_SECONDS) == 130

    first, second = (json.loads(line) for line in seen)
    assert first["id"] != second["id"]
    assert first["timestamp"] < second["timestamp"]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["show", "0123456789abcdef"], "Nothing in the record has the id 0123456789abcdef"),
        (["show", "x/../y"], "An id has only the digits"),
    ],
)
def test_what_is_not_there_is_told_in_the_words_of_the_gateway(
    stage: Stage, full: Running, argv: list[str], told: str
) -> None:
    ran = stage.run(*argv, "--url", full.url)
    assert (ran.code, ran.out) == (1, "")
    assert told in ran.err


@pytest.mark.parametrize("argv", [["traffic"], ["traffic", "-f"], ["show", "ab"], ["export"]])
def test_where_nothing_answers_that_is_said(stage: Stage, argv: list[str]) -> None:
    ran = stage.run(*argv, "--url", "http://127.0.0.1:1")
    assert ran.code == 1
    assert "cannot connect to http://127.0.0.1:1" in ran.err


def test_a_gateway_that_ends_ends_the_following(stage: Stage, tmp_path: Path) -> None:
    state = str(tmp_path / "other")
    with running("--state-dir", state) as gateway:
        command = [sys.executable, "-m", "anyport", "traffic", "-f", "--url", gateway.url]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"TIME")
            gateway.process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == 1
            assert process.stderr is not None
            assert b"closed the stream" in process.stderr.read()
