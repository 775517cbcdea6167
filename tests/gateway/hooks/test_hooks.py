"""Events to actions: which event sets off which hook, and that nobody waits for one."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from anyport.config.model import HookConfig
from anyport.gateway.hooks import actions, hooks, queue
from anyport.gateway.hooks.hooks import spool_folder
from tests.gateway.hooks.rig import TRACE, Scene, Stage, played
from tests.gateway.receiver import until


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Scene], Any]:
    return partial(played, path=tmp_path)


Play = Callable[[Scene], Any]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short, and so is the end."""
    monkeypatch.setattr(actions, "FIRST_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(hooks, "STOP_SECONDS_MAX", 0.2)


def test_an_event_that_fits_is_posted_as_the_journal_has_it(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.hooks.replace([stage.posting(on="server:git* status:error")])
        told: list[bytes] = []
        stage.journal.subscribe(told.append)
        stage.note("failure", server="github", tool="a")
        stage.note("failure", server="docs", tool="b")
        stage.note("success", server="github", tool="c")
        await stage.settled()
        assert stage.here.bodies == told[:1]

    play(scene)


def test_without_hooks_nobody_listens(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.hooks.replace([])
        assert stage.journal._listeners == []
        stage.hooks.replace([stage.posting()])
        assert len(stage.journal._listeners) == 1
        stage.hooks.replace([])
        assert stage.journal._listeners == []

    play(scene)


def test_nothing_of_the_work_is_done_where_the_event_is_noted(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.hooks.replace([stage.posting()])
        stage.note(tool="a")
        assert stage.hooks.report()["h"]["waiting"] == 0
        await asyncio.sleep(0)
        assert stage.hooks.report()["h"]["waiting"] == 1
        await stage.settled()

    play(scene)


@pytest.mark.parametrize(("match", "expected"), [("all", [2, 2]), ("first", [2, 1])])
def test_all_hooks_that_an_event_fits_or_only_the_first(
    play: Play, match: Any, expected: list[int]
) -> None:
    async def scene(stage: Stage) -> None:
        configs = [stage.posting("one", "server:a"), stage.posting("two", "tool:x")]
        stage.hooks.replace(configs, match)
        stage.note(server="a", tool="x")
        stage.note(server="a", tool="y")
        stage.note(server="b", tool="x")
        await stage.settled()
        report = stage.hooks.report()
        assert [report["one"]["delivered"], report["two"]["delivered"]] == expected

    play(scene)


def test_a_long_call_sets_a_hook_off_once_unless_its_beginning_is_asked_for(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.hooks.replace([stage.posting("end", "tool:x"), stage.posting("b", "status:pending")])
        stage.note("pending", tool="x")
        stage.note("success", tool="x")
        await stage.settled()
        by = [(head["anyport-hook"], event["status"])
              for head, event in zip(stage.here.heads, stage.here.events, strict=True)]  # fmt: skip
        assert sorted(by) == [("b", "pending"), ("end", "success")]

    play(scene)


def test_frames_and_plain_exchanges_are_only_for_hooks_that_name_them(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.hooks.replace([stage.posting("all", "server:s"), stage.posting("f", "type:frame")])
        stage.note(type="frame", server="s", tool="frame")
        stage.note(type="exchange", server="s", tool="exchange")
        stage.note(server="s", tool="call")
        await stage.settled()
        by = [(head["anyport-hook"], tool)
              for head, tool in zip(stage.here.heads, stage.tools, strict=True)]  # fmt: skip
        assert sorted(by) == [("all", "call"), ("f", "frame")]

    play(scene)


def test_what_tells_of_hooks_and_of_their_calls_sets_none_off(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.hooks.replace([stage.posting()])
        stage.note(tool="first")
        stage.note(tool="theirs", client_transport="hook")
        stage.note("failure", type="hook_failed", tool="ours")
        stage.note("failure", type="hook_dropped", tool="ours")
        stage.note(tool="another", client_transport="stdio")
        await stage.settled()
        assert stage.tools == ["first", "another"]

    play(scene)


def test_no_client_hides_a_call_by_naming_the_span_of_a_hook(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.hooks.replace([stage.posting()])
        stage.note(tool="first")
        await stage.settled()
        span = stage.here.heads[0]["traceparent"].split("-")[2]
        stage.note(tool="child", parent_span_id=span)
        await stage.settled()
        assert stage.tools == ["first", "child"]

    play(scene)


def test_what_servers_that_hooks_call_say_on_their_own_makes_no_hook_call(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.hooks.replace(
            [
                HookConfig(name="call", on="type:stderr", call=("slack", "post")),
                stage.posting("post", "type:stderr"),
            ]
        )
        stage.note(type="stderr", server="slack", tool="own")
        stage.note(type="stderr", server="other", tool="foreign")
        await stage.settled()
        assert stage.tools == ["own", "foreign"]
        assert stage.hooks.report()["call"]["failed"] == 1  # No profile has it here.

    play(scene)


def test_a_receiver_that_fails_for_a_while_gets_the_event_all_the_same_and_once(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.here.answer(500, 503, "429 Retry-After: 0")
        stage.hooks.replace([stage.posting()])
        stage.note(tool="a")
        await stage.settled()
        assert stage.tools == ["a"] * 4
        assert len({head["idempotency-key"] for head in stage.here.heads}) == 1
        report = stage.hooks.report()["h"]
        assert (report["delivered"], report["failed"]) == (1, 0)
        assert report["last_error"] == "it answered with HTTP 429"

    play(scene)


def test_an_event_that_is_refused_is_noted_without_setting_hooks_off(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        told: list[dict[str, Any]] = []
        stage.journal.subscribe(lambda line: told.append(json.loads(line)))
        stage.here.answer(400)
        stage.hooks.replace([stage.posting()])
        stage.note(tool="a")
        await stage.settled()
        [_, failed] = told
        assert failed["event_type"] == "gateway.hook_failed"
        assert failed["trace_id"] == TRACE
        assert failed["error_message"] == "it answered with HTTP 400"
        assert failed["metadata"]["hook"] == "h"
        assert failed["metadata"]["about"] == "gateway.tool_call"
        assert failed["metadata"]["key"] == stage.here.heads[0]["idempotency-key"]
        assert stage.tools == ["a"]

    play(scene)


def test_a_receiver_that_hangs_slows_nobody_and_the_queue_is_bounded(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "SPOOL_BYTES_MAX", 20_000)

    def cost(stage: Stage) -> float:
        began = time.process_time()
        for _ in range(2000):
            stage.note(tool="x", server="s")
        return time.process_time() - began

    async def scene(stage: Stage) -> None:
        stage.here.open.clear()
        stage.hooks.replace([stage.posting()])
        stage.note(tool="x")
        await until(lambda: len(stage.here.bodies) == 1)
        hanging = cost(stage)
        await asyncio.sleep(0)
        report = stage.hooks.report()["h"]
        assert 10 < report["waiting"] < 100
        assert report["dropped"] == 2001 - report["waiting"]
        stage.here.open.set()
        await stage.settled()
        assert stage.hooks.report()["h"]["delivered"] == report["waiting"]
        # Noting costs the same whether the receiver hangs or not: nobody waits for it.
        assert hanging < 5 * cost(stage) + 0.05

    play(scene)


def test_a_restart_goes_on_with_what_was_accepted(tmp_path: Path) -> None:
    async def before(stage: Stage) -> int:
        stage.here.open.clear()
        stage.hooks.replace([stage.posting()])
        for name in "abc":
            stage.note(tool=name)
        await until(lambda: len(stage.here.bodies) == 1)
        return stage.here.port

    async def after(stage: Stage) -> list[str]:
        stage.hooks.replace([stage.posting()])
        await stage.settled()
        return stage.tools

    port = played(before, tmp_path)

    assert played(after, tmp_path, port) == ["a", "b", "c"]
    assert not list(tmp_path.glob("spool/*/*"))


def test_what_happens_while_the_gateway_stops_is_kept_for_the_next_start(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.hooks.replace([stage.posting()])
        await stage.hooks.stop()
        stage.note(type="stopped", tool="last")
        stage.hooks.close()
        [file] = stage.path.glob("spool/h-*/*.jsonl")
        assert b'"tool":"last"' in file.read_bytes()

    play(scene)


def test_replacing_keeps_those_that_are_the_same(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        same, gone = stage.posting("same"), stage.posting("gone")
        stage.hooks.replace([same, gone])
        stage.note(tool="1")
        await stage.settled()
        stage.hooks.replace([stage.posting("new"), same])
        stage.note(tool="2")
        await stage.settled()
        report = stage.hooks.report()
        assert list(report) == ["new", "same"]
        assert (report["new"]["delivered"], report["same"]["delivered"]) == (1, 2)

    play(scene)


def test_a_hook_whose_filter_changes_goes_on_with_what_it_had_accepted(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.here.open.clear()
        stage.hooks.replace([stage.posting(on="tool:a")])
        stage.note(tool="a")
        await until(lambda: len(stage.here.bodies) == 1)
        stage.hooks.replace([stage.posting(on="tool:b")])
        stage.here.open.set()
        stage.note(tool="a")
        stage.note(tool="b")
        await stage.settled()
        assert stage.tools == ["a", "a", "b"]
        assert len({head["idempotency-key"] for head in stage.here.heads}) == 2

    play(scene)


def test_a_hook_that_cannot_work_says_why_and_the_others_do(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.hooks.replace(
            [
                HookConfig(name="a", on="x", post="http://e.com", unresolved=("post needs X",)),
                HookConfig(name="b", on="nonsense:x", run=("x",)),
                HookConfig(name="c", on="x", post="gopher://x"),
                HookConfig(name="d", on="x", call=("s", "t"), arguments={"a": "{{ x }}"}),
                stage.posting("e"),
            ]
        )
        report = stage.hooks.report()
        assert report["a"] == {
            "action": "post",
            **dict.fromkeys(("delivered", "failed", "dropped", "waiting"), 0),
            "last_error": "post needs X",
        }
        assert report["b"]["last_error"].startswith("it cannot be understood: Unknown key")
        assert report["c"]["last_error"].startswith("post cannot be used: ")
        assert report["d"]["last_error"].startswith("it cannot be understood: refers to 'x'")
        assert report["e"]["delivered"] == 0
        assert stage.hooks.has_post

    play(scene)


def test_two_configurations_that_share_a_state_directory_share_no_spool(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        stage.here.open.clear()
        stage.hooks.replace([stage.posting()])
        stage.note(tool="mine")
        await until(lambda: len(stage.here.bodies) == 1)
        stage.hooks.replace([])
        other = HookConfig(name="h", on="type:*", post=f"{stage.here.url}&other")
        stage.hooks.replace([other])
        assert stage.hooks.report()["h"]["waiting"] == 0

    play(scene)


@pytest.mark.slow
def test_a_command_is_run_with_the_event(play: Play) -> None:
    async def scene(stage: Stage) -> None:
        file = stage.path / "found"
        code = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
        run = (sys.executable, "-I", "-S", "-c", code, str(file))
        stage.hooks.replace([HookConfig(name="h", on="tool:x", run=run)])
        stage.note(tool="x")
        await stage.settled()
        assert json.loads(file.read_text())["metadata"]["tool"] == "x"
        assert not stage.hooks.has_post

    play(scene)


def test_the_folder_of_a_hook_is_that_of_its_name_and_url_and_shows_no_secret() -> None:
    one = spool_folder(Path("x"), HookConfig(name="h", on="x", post="https://e.com/s3cret"))
    two = spool_folder(Path("x"), HookConfig(name="h", on="y", post="https://e.com/s3cret"))
    three = spool_folder(Path("x"), HookConfig(name="h", on="x", post="https://e.com/other"))

    assert one == two != three
    assert one.name.startswith("h-")
    assert "s3cret" not in one.name
