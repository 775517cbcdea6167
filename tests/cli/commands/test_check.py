"""`anyport check`."""

import json
import sys
from typing import Any

import pytest

from tests.cli.stage import Stage


def test_what_was_found_is_shown_without_secrets(stage: Stage) -> None:
    (stage.folder / "anyport.json").write_text(
        json.dumps(
            {
                "mcpServers": {
                    "My Notes": {
                        "command": sys.executable,
                        "args": ["--token", "hunter2secret", "a b"],
                        "env": {"TOKEN": "hunter2secret"},
                    },
                    "off": {"command": "x", "disabled": True},
                },
                "profiles": {"dev": {"servers": ["off"]}, "all": {}},
            }
        )
    )

    ran = stage.run("check")

    assert ran.code == 0
    assert "hunter2secret" not in ran.out + ran.err
    assert f"my-notes  good      {sys.executable} --token [redacted] 'a b'\n" in ran.out
    assert "off       disabled  x\n" in ran.out
    assert "dev      off\n" in ran.out
    assert "all      my-notes, off\n" in ran.out
    assert "no profile is called default: clients choose one with --profile" in ran.out
    assert "'My Notes' is renamed to my-notes" in ran.out
    assert ran.err == ""


def test_a_server_that_cannot_start_here_is_a_warning(stage: Stage) -> None:
    stage.configure(
        keyed={"command": "x", "env": {"KEY": "${env:ANYPORT_TEST_ABSENT}"}},
        absent={"command": "anyport-test-absent"},
        remote={"url": "https://example.com/mcp", "headers": {"X": "hunter2secret"}},
    )

    ran = stage.run("check")

    assert ran.code == 0
    assert "server 'keyed' will not start: env.KEY needs the environment variable" in ran.err
    assert "server 'absent' will not start: the command anyport-test-absent is not" in ran.err
    assert "'remote'" not in ran.err
    assert "hunter2secret" not in ran.out
    warned = stage.run("check", "--json").json["servers"]
    assert warned["tiny"]["warnings"] == []
    assert len(warned["keyed"]["warnings"]) == 1


def test_a_url_that_no_server_can_be_reached_by_is_a_fault(stage: Stage) -> None:
    file = stage.configure(remote={"url": "https://user:hunter2secret@example.com/mcp"})

    ran = stage.run("check")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"{file}:1:")
    assert "mcpServers.remote.url must not hold a user or password (use headers)" in ran.err
    assert "hunter2secret" not in ran.err


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"command": "sh", "cwd": "gone"}, "the working directory {folder}/gone does not exist"),
        ({"command": "./plain"}, "the command {folder}/plain is not executable; run chmod +x"),
        ({"command": "./"}, "is a directory"),
        ({"command": "sh -c true"}, "keep sh in command and put the rest into args"),
        ({"command": "sh ./x/y -v"}, "keep sh in command and put the rest into args"),
        ({"command": "anyport-absent -v"}, "is not found; install it"),
        ({"command": "sh", "envFile": "no.env"}, "no.env cannot be read: No such file"),
    ],
)
def test_why_a_server_cannot_start_is_told_with_what_to_do(
    stage: Stage, entry: dict[str, str], told: str
) -> None:
    (stage.folder / "plain").write_text("echo")
    stage.configure(odd=entry)

    ran = stage.run("check")

    assert ran.code == 0
    assert "warning: server 'odd' will not start: " in ran.err
    assert told.format(folder=stage.folder) in ran.err


@pytest.mark.parametrize(
    "odd",
    [
        {"command": sys.executable, "args": ["-m", "anyport.demo", "${env:ODD}"]},
        {"command": "/nowhere/${env:ODD}"},
        {"command": sys.executable, "args": ["-m", "anyport.demo"], "cwd": "/nowhere/${env:ODD}"},
        {"command": sys.executable, "args": ["-m", "anyport.demo"], "env": {"X": "${env:ODD}"}},
    ],
)
def test_a_value_that_is_no_utf_8_concerns_its_server_alone(
    stage: Stage, odd: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD", "a\udcffb")  # As Python has the byte 0xff.
    stage.configure(tiny={"command": sys.executable, "args": ["-m", "anyport.demo"]}, odd=odd)

    ran = stage.run("call", "tiny__add", "a=2", "b=3")
    assert (ran.code, ran.err) == (0, "")
    assert set(stage.run("status", "--json").json["backends"]) == {"tiny", "odd"}
    assert set(stage.run("check", "--json").json["servers"]) == {"tiny", "odd"}


def test_a_configuration_without_servers_says_so(stage: Stage) -> None:
    (stage.folder / "anyport.toml").write_text("")

    assert "no servers: define them under mcpServers" in stage.run("check").out
    assert "no servers in " in stage.run("tools").err


def test_faults_are_told_with_their_place_and_fail(stage: Stage) -> None:
    file = stage.folder / "mine.toml"
    file.write_text('[mcpServers.a]\ncommand = "x"\ntimeuot = 3\n')

    ran = stage.run("check", "--config", "mine.toml")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("mine.toml:3:1: ")
    assert "did you mean timeout?" in ran.err

    ran = stage.run("check", "--config", "mine.toml", "--json")
    assert ran.code == 1
    assert ran.json["ok"] is False
    assert ran.json["faults"][0]["line"] == 3


def test_with_nothing_configured_it_says_what_is_used(stage: Stage) -> None:
    ran = stage.run("check")
    assert ran.code == 0
    assert ran.out.startswith("configuration: the built-in demo server\n")
    assert "found no anyport.toml" in ran.err


def test_a_profile_that_is_asked_for_must_be_there(stage: Stage) -> None:
    assert stage.run("check", "--profile", "default").code == 0
    ran = stage.run("check", "--profile", "dev")
    assert ran.code == 2
    assert "the profiles are: default" in ran.err


def test_where_it_would_listen_is_told_and_why_that_would_be_refused(stage: Stage) -> None:
    stage.configure()
    ran = stage.run("check")
    assert "'anyport serve' listens at http://127.0.0.1:8640, without a token\n" in ran.out
    assert ran.err == ""

    open_door = {"listen": "0.0.0.0:81"}
    (stage.folder / "anyport.json").write_text(json.dumps({"gateway": open_door}))
    ran = stage.run("check")
    assert ran.code == 0
    assert "warning: 'anyport serve' will not start: listening on 0.0.0.0" in ran.err
    assert "gateway.tokens" in ran.err
    listen = stage.run("check", "--json").json["listen"]
    assert listen["url"] == "http://0.0.0.0:81"
    assert "gateway.tokens" in listen["refused"]


def test_tokens_are_named_and_never_shown(stage: Stage) -> None:
    gateway = {"listen": "0.0.0.0:81", "tokens": {"me": "hunter2-hunter2-hunter2"}}
    (stage.folder / "anyport.json").write_text(json.dumps({"gateway": gateway}))

    ran = stage.run("check")

    assert "'anyport serve' listens at http://0.0.0.0:81, with a token: me\n" in ran.out
    assert "will not start" not in ran.err
    assert "warning: " in ran.err, "a token in the file is better a reference"
    assert "hunter2" not in ran.out + ran.err + stage.run("check", "--json").out


def test_hooks_are_listed_with_what_stands_in_their_way(stage: Stage) -> None:
    hooks = [
        {"name": "alarm", "on": "status:error", "post": "${env:ANYPORT_TEST_ABSENT}"},
        {"name": "absent", "on": "type:* since:1h", "run": ["anyport-test-absent", "a b"]},
        {"name": "whole", "on": "status:error", "run": ["sh -c true"]},
        {"name": "keyed", "on": "status:error", "run": ["sh", "-c", "${env:ANYPORT_TEST_KEY}"]},
        {"name": "tell", "on": "status:error", "call": "tiny/add"},
    ]
    file = stage.configure()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"hooks": hooks}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYPORT_TEST_KEY", "hunter2secret")
        ran = stage.run("check")
        told = stage.run("check", "--json").json

    assert ran.code == 0
    assert "hunter2secret" not in ran.out + ran.err + str(told)
    rows = [line.split(maxsplit=2) for line in ran.out.partition("HOOK")[2].splitlines()[1:]]
    assert [row[:2] for row in rows] == [
        *(["alarm", "post"], ["absent", "run"], ["whole", "run"], ["keyed", "run"]),
        ["tell", "call"],
    ]
    assert rows[0][2].split() == ["${env:ANYPORT_TEST_ABSENT}", "status:error"]
    assert rows[1][2].startswith("anyport-test-absent 'a b'")
    assert rows[4][2].split() == ["tiny/add", "status:error"]
    assert ran.err.count("the hook 'alarm' will do nothing: post needs") == 1
    assert "there is no use for since: in a hook" in ran.err
    assert "hook 'absent' will fail: the command anyport-test-absent is not found" in ran.err
    assert "hook 'whole' will fail: " in ran.err
    assert "keep sh as the first element of run" in ran.err
    assert "'keyed'" not in ran.err
    assert told["hooks"]["tell"] == {
        "on": "status:error",
        "action": "call",
        "target": "tiny/add",
        "warnings": [],
    }


def test_telemetry_without_its_packages_is_a_warning(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stage.configure()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"telemetry": {"enabled": True}}))
    assert stage.run("check").err == ""

    monkeypatch.setattr("anyport.observe.telemetry.PACKAGES", ("anyport_absent",))
    assert "warning: telemetry is switched on, but the packages" in stage.run("check").err
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert stage.run("check").err == ""
