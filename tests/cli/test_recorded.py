"""The traffic of a gateway that runs elsewhere, asked for by commands."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Running, Session, running
from tests.cli.stage import Stage, tiny_entry
from tests.harness import WAIT_SECONDS


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
        (["show", "0123456789abcdef"], "Nothing that is recorded has the id 0123456789abcdef"),
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
    assert "nothing answers at http://127.0.0.1:1" in ran.err


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
            assert b"has ended the stream" in process.stderr.read()
