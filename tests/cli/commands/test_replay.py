"""`anyport replay`, from a recording to the exit code."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Running
from tests.cli.stage import Stage, tiny_entry


@pytest.fixture
def tiny(stage: Stage) -> Stage:
    """A gateway that records everything, with the tiny server."""
    configure(stage)
    return stage


def configure(stage: Stage, **servers: Any) -> None:
    config = {
        "mcpServers": {"tiny": tiny_entry(stage.notes), **servers},
        "record": {"capture": "full"},
    }
    (stage.folder / "anyport.json").write_text(json.dumps(config))


def recorded(stage: Stage, *call: str) -> str:
    """Call something; the id of the exchange."""
    stage.run("call", *call)
    rows = stage.run("traffic", "method:tools/call", "--json").out.splitlines()
    return str(json.loads(rows[-1])["id"])


def written(folder: Path, **files: Any) -> str:
    folder.mkdir()
    for name, content in files.items():
        (folder / f"{name.replace('__', '.')}.json").write_text(json.dumps(content))
    return str(folder)


def ask(method: str, params: Any = None, id: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def test_a_call_is_replayed_against_its_server(tiny: Stage) -> None:
    id = recorded(tiny, "tiny__add", "a=2", "b=3")
    ran = tiny.run("replay", id[:8], "--yes")

    assert ran.code == 0
    assert f"{id}  tools/call  add     same" in ran.out
    assert ran.err == "anyport: 1 same\n"


def test_a_call_is_replayed_through_a_gateway(tiny: Stage) -> None:
    id = recorded(tiny, "tiny__add", "a=2", "b=3")
    ran = tiny.run("replay", id, "--yes", "--profile", "default")

    assert ran.code == 0
    assert f"{id}  tools/call  tiny__add  same" in ran.out


def test_a_call_is_replayed_at_a_url(tiny: Stage, there: Running) -> None:
    id = recorded(tiny, "tiny__add", "a=2", "b=3")
    ran = tiny.run("replay", id, "--yes", "--url", f"{there.url}/mcp/dev")

    assert ran.code == 0
    assert f"{id}  tools/call  tiny__add  same" in ran.out


def test_another_answer_is_a_failure(tiny: Stage) -> None:
    id = recorded(tiny, "tiny__say", "text=hello")
    tiny.run("export", f"id:{id}", "-o", "one.jsonl")
    file = tiny.folder / "one.jsonl"
    file.write_text(file.read_text().replace('"text": "hello"}]', '"text": "hullo"}]'))
    ran = tiny.run("replay", "one.jsonl", "--yes", "--json")

    assert ran.code == 1
    [case] = ran.json["cases"]
    assert case["differences"] == [
        {"path": "result.content[0].text", "expected": "hullo", "actual": "hello"}
    ]


def test_arguments_can_be_edited(tiny: Stage) -> None:
    id = recorded(tiny, "tiny__add", "a=2", "b=3")

    ran = tiny.run("replay", id, "--yes", "--set", "b=4")
    assert ran.code == 0
    assert '    - "{\\"sum\\": 5}"\n    + "{\\"sum\\": 6}"\n' in ran.out
    assert tiny.run("replay", id, "--yes", "--args", '{"a": 1, "b": 4}', "--expect").code == 0
    assert tiny.run("replay", id, "--yes", "--set", "b=4", "--expect").code == 1
    assert tiny.run("replay", id, "--yes", "--set", "b=x").code == 2
    ran = tiny.run("replay", "method:tools/list", "--yes", "--set", "b=4")
    assert (ran.code, ran.out) == (2, "")
    assert "--set and --args change calls" in ran.err


def test_a_tool_that_may_do_harm_is_not_called_unasked(tiny: Stage) -> None:
    id = recorded(tiny, "tiny__say", "text=hello")
    ran = tiny.run("replay", id)

    assert (ran.code, ran.out) == (2, "")
    assert "  say is not marked as read-only or idempotent" in ran.err
    assert "add --yes" in ran.err


def test_what_will_be_skipped_raises_no_question(tiny: Stage) -> None:
    id = recorded(tiny, "tiny__say", "text=Bearer 0123456789abcdef0123456789abcdef")
    ran = tiny.run("replay", id)

    assert ran.code == 1
    assert "part of it was redacted" in ran.out
    assert ran.err == "anyport: 1 skipped\n"


def test_a_server_is_asked_by_its_own_names(tiny: Stage) -> None:
    add = ask("tools/call", {"name": "tiny__add", "arguments": {"a": 1, "b": 2}})
    ran = tiny.run("replay", written(tiny.folder / "fixtures", one=add), "--server", "tiny")

    assert (ran.code, ran.out) == (2, "")
    assert "a server knows only native names, without a prefix:\n  tiny__add\n" in ran.err


def test_a_replay_through_a_gateway_sets_off_no_hook(tiny: Stage) -> None:
    id = recorded(tiny, "tiny__add", "a=2", "b=3")
    file = tiny.folder / "anyport.json"
    hook = {"name": "loud", "on": "type:tool_call", "run": ["touch", "heard"]}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"hooks": [hook]}))
    ran = tiny.run("replay", id, "--yes", "--profile", "default")

    assert ran.code == 0
    assert not (tiny.folder / "heard").exists()
    assert "hook" not in tiny.run("events", "--json").out


def test_what_a_server_asked_is_answered_as_before(stage: Stage) -> None:
    configure(stage)
    # Nobody was there to be asked: what the server got then, it gets again.
    id = recorded(stage, "tiny__ask")
    assert stage.run("replay", id, "--yes").code == 0
    assert stage.run("replay", id, "--yes", "--profile", "default").code == 0


def test_everything_of_an_export_is_replayed(tiny: Stage) -> None:
    # What `initialize` declares depends on whether the server has been met.
    tiny.run("tools")
    for kept in tiny.state.iterdir():
        if kept.is_dir() and kept.name != "lists":
            shutil.rmtree(kept)
    recorded(tiny, "tiny__add", "a=2", "b=3")
    recorded(tiny, "tiny__error")
    recorded(tiny, "tiny__picture")
    tiny.run("export", "-o", "all.jsonl")

    for options in ((), ("--profile", "default")):
        ran = tiny.run("replay", "all.jsonl", "--yes", "--json", *options)
        assert ran.code == 0, ran.out
        played = [case for case in ran.json["cases"] if case["result"] != "skipped"]
        calls = [case for case in played if case["method"] == "tools/call"]
        assert len(calls) == 3
        assert {case["result"] for case in played} == {"same"}


def test_what_was_not_recorded_cannot_be_replayed(stage: Stage) -> None:
    stage.configure()
    id = recorded(stage, "tiny__add", "a=2", "b=3")
    ran = stage.run("replay", id, "--yes")

    assert ran.code == 1
    assert 'capture = "full"' in ran.out
    assert ran.err == "anyport: 1 skipped\n"


def test_it_is_sent_to_one_place(tiny: Stage) -> None:
    ran = tiny.run("replay", "x", "--server", "a", "--profile", "b")
    assert ran.code == 2
    assert "use only one of --server, --profile and --url" in ran.err


def test_a_server_that_is_not_there_is_told(tiny: Stage) -> None:
    id = recorded(tiny, "tiny__add", "a=2", "b=3")
    ran = tiny.run("replay", id, "--yes", "--server", "tinny")

    assert ran.code == 2
    assert "there is no server 'tinny' in the configuration" in ran.err
    assert "tiny" in ran.err


def test_a_server_of_another_version_is_compared_with_the_recording(stage: Stage) -> None:
    configure(stage, next={**tiny_entry(stage.notes), "timeout": 30})
    id = recorded(stage, "tiny__add", "a=2", "b=3")
    assert stage.run("replay", id, "--yes", "--server", "next").code == 0


HELLO = {
    "protocolVersion": "2024-11-05",
    "capabilities": {},
    "clientInfo": {"name": "cursor", "version": "1.0"},
}
SUM = {"result": {"structuredContent": {"sum": 3}}}


def test_a_directory_of_requests_is_played_as_one_session(tiny: Stage) -> None:
    folder = written(
        tiny.folder / "fixtures",
        **{
            "01_initialize": ask("initialize", HELLO),
            "01_initialize__expected": {"expect": {"result": {"protocolVersion": "2024-11-05"}}},
            "02_initialized": {"jsonrpc": "2.0", "method": "notifications/initialized"},
            "03_add": {
                "request": ask("tools/call", {"name": "tiny__add", "arguments": {"a": 1, "b": 2}}),
                "response": {"result": {"content": [{"type": "text", "text": '{"sum": 3}'}]}},
            },
            "10_nobody": ask("tools/call", {"name": "nobody"}),
            "10_nobody__expected": {"error": {"code": -32601, "message": "Tool not found: nobody"}},
            "9_list": ask("tools/list"),
        },
    )
    ran = tiny.run("replay", folder, "--yes", "--json")

    assert ran.code == 0, ran.out
    assert [(case["case"], case["result"]) for case in ran.json["cases"]] == [
        ("01_initialize.json", "same"),
        ("02_initialized.json", "sent"),
        ("03_add.json", "same"),
        ("9_list.json", "answered"),
        ("10_nobody.json", "same"),
    ]
    assert tiny.run("replay", folder, "--yes", "--expect").code == 1


def test_requests_without_a_handshake_get_one(tiny: Stage, there: Running) -> None:
    for name, *options in (
        ("tiny__add",),
        ("add", "--server", "tiny"),
        ("tiny__add", "--url", f"{there.url}/mcp/dev"),
    ):
        add = {"name": name, "arguments": {"a": 1, "b": 2}}
        folder = written(
            tiny.folder / f"fixtures {len(options)} {name}",
            one={"request": ask("tools/call", add), "expect": SUM},
        )
        ran = tiny.run("replay", folder, "--yes", *options)
        assert ran.code == 0, (options, ran.out, ran.err)


def test_an_unexpected_answer_fails_the_run(tiny: Stage) -> None:
    add = {"name": "tiny__add", "arguments": {"a": 1, "b": 3}}
    folder = written(
        tiny.folder / "fixtures", one={"request": ask("tools/call", add), "expect": SUM}
    )
    ran = tiny.run("replay", folder, "--yes")

    assert ran.code == 1
    assert "  result.structuredContent.sum\n    - 3\n    + 4\n" in ran.out


def test_nothing_to_replay_is_wrong_usage(tiny: Stage) -> None:
    assert tiny.run("replay").code == 2
    assert tiny.run("replay", written(tiny.folder / "empty")).code == 2
