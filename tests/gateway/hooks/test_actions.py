"""The pace of further attempts, and what an attempt is given."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from anyport.config.model import HookConfig
from anyport.gateway.hooks import actions
from anyport.gateway.hooks.actions import (
    HOOK_PRINCIPAL,
    RETRY_AFTER_SECONDS_MAX,
    RETRY_SECONDS_MAX,
    VARIABLE_CHARS_MAX,
    ActionDone,
    ActionFailed,
    ActionOutcome,
    ActionRetry,
    CallAction,
    HookEvent,
    PostAction,
    RunAction,
    hook_environment,
    read_retry_after,
    retry_delay_seconds,
)
from anyport.gateway.profile import Profile
from anyport.protocol.errors import not_running
from anyport.protocol.exchange import Answered, Ending, ErrorAnswered, Exchange, Failed, Progress
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import NEWEST_MODERN
from anyport.protocol.transcript import Transcript
from anyport.upstream.http.url import BadUrl
from anyport.upstream.stdio.process import ProcessSpawner
from tests.gateway.fakes import FakeClock, FakeServer, profile_of
from tests.gateway.receiver import Receiver, receiver


@pytest.mark.parametrize(
    ("attempts", "least", "most"), [(1, 0.5, 1.0), (2, 1.0, 2.0), (5, 8.0, 16.0)]
)
def test_each_pause_is_twice_the_last_and_half_of_it_is_chance(
    attempts: int, least: float, most: float
) -> None:
    assert retry_delay_seconds(attempts, 0.0) == least
    assert retry_delay_seconds(attempts, 1.0) == most


@pytest.mark.parametrize("attempts", [20, 10_000])
def test_a_pause_never_grows_beyond_its_limit(attempts: int) -> None:
    assert retry_delay_seconds(attempts, 1.0) == RETRY_SECONDS_MAX


def test_what_follows_from_an_event_is_part_of_its_trace() -> None:
    line = json.dumps({"trace_id": "a" * 32}).encode()

    assert HookEvent(line, "key", "b" * 16).traceparent == f"00-{'a' * 32}-{'b' * 16}-01"


# Posting: what is sent, and what each reply means for the event.


LINE = json.dumps(
    {
        "trace_id": "a" * 32,
        "event_type": "gateway.tool_call",
        "status": "failure",
        "metadata": {"server": "github"},
    }
).encode()
OCCASION = HookEvent(LINE, "k" * 32, "b" * 16)

Scene = Callable[[Receiver], Coroutine[Any, Any, Any]]


def play(scene: Scene) -> Any:
    async def whole() -> Any:
        async with asyncio.timeout(20), receiver() as here:
            return await scene(here)

    return asyncio.run(whole())


async def post(here: Receiver, **config: Any) -> ActionOutcome:
    action = PostAction(HookConfig(name="h", on="x", post=here.url, **config), FakeClock())
    try:
        return await action.act(OCCASION)
    finally:
        action.close()


def outcome(*statuses: int | str) -> ActionOutcome:
    async def scene(here: Receiver) -> ActionOutcome:
        here.answer(*statuses)
        return await post(here)

    told: ActionOutcome = play(scene)
    return told


def test_the_event_is_sent_as_the_journal_has_it() -> None:
    async def scene(here: Receiver) -> None:
        assert await post(here, headers={"Authorization": "Bearer x"}) == ActionDone()
        assert here.bodies == [LINE]
        [head] = here.heads
        assert head["request"] == "POST /events?x=1 HTTP/1.1"
        assert head["content-type"] == "application/json"
        assert head["authorization"] == "Bearer x"
        assert head["idempotency-key"] == "k" * 32
        assert head["anyport-hook"] == "h"
        assert head["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"
        assert head["user-agent"].startswith("anyport/")

    play(scene)


def test_a_body_is_made_from_the_event_where_one_is_configured() -> None:
    async def scene(here: Receiver) -> None:
        body = {"text": "{{ metadata.server }}: {{ error_message }}", "n": 1}
        assert await post(here, body=body) == ActionDone(missing=("error_message",))
        assert here.events == [{"text": "github: ", "n": 1}]

    play(scene)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_delivery(status: int) -> None:
    assert outcome(status) == ActionDone()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
def test_a_refusal_of_the_event_is_final(status: int) -> None:
    assert outcome(status) == ActionFailed(reason=f"it answered with HTTP {status}")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    told = outcome(f"{status} Location: http://127.0.0.1:1/")

    assert told == ActionFailed(
        reason=f"it answered with a redirect (HTTP {status}): set post to the new URL"
    )


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_everything_else_is_tried_again(status: int) -> None:
    assert outcome(status) == ActionRetry(reason=f"it answered with HTTP {status}")


def test_the_receiver_says_how_long_it_wants_to_be_left_alone() -> None:
    told = outcome("429 Retry-After: 17")

    assert told == ActionRetry(reason="it answered with HTTP 429", after_seconds=17.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        (" 120 ", 120.0),
        ("99999999999999", RETRY_AFTER_SECONDS_MAX),
        (formatdate(1060, usegmt=True), 60.0),
        (formatdate(900, usegmt=True), 0.0),
        (formatdate(10**9, usegmt=True), RETRY_AFTER_SECONDS_MAX),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_both_forms_of_retry_after_are_understood(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text, 1000.0) == seconds


def test_nobody_there_says_nothing_of_the_event() -> None:
    async def scene(here: Receiver) -> ActionOutcome:
        here.port = 1
        return await post(here)

    told = play(scene)

    assert isinstance(told, ActionRetry)
    assert not told.is_answer


def test_a_receiver_that_breaks_off_may_have_choked_on_it() -> None:
    async def scene(here: Receiver) -> ActionOutcome:
        here.replies.append(b"HTTP/1.1 rubbish\r\n\r\n")
        return await post(here)

    told = play(scene)

    assert isinstance(told, ActionRetry)
    assert told.is_answer


def test_a_receiver_that_does_not_answer_is_given_up_for_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actions, "POST_SECONDS_MAX", 0.05)

    async def scene(here: Receiver) -> ActionOutcome:
        here.open.clear()
        return await post(here)

    assert play(scene) == ActionRetry(reason="no reply within 0.05 s", is_answer=False)


def test_connections_are_used_again() -> None:
    async def scene(here: Receiver) -> None:
        action = PostAction(HookConfig(name="h", on="x", post=here.url), FakeClock())
        for _ in range(3):
            assert await action.act(OCCASION) == ActionDone()
        assert len(action._client.connections) == 1
        action.close()

    play(scene)


def test_a_url_that_is_none_cannot_be_posted_to() -> None:
    async def scene(here: Receiver) -> None:
        with pytest.raises(BadUrl):
            PostAction(HookConfig(name="h", on="x", post="ftp://x"), FakeClock())

    play(scene)


# Calling a tool: the exchange that is begun, and what its ending means.


CALL_LINE = json.dumps(
    {"trace_id": "a" * 32, "event_type": "gateway.x", "metadata": {"server": "s"}, "duration_ms": 5}
).encode()
GOOD = Answered(b'{"content":[]}')


class Relay:
    """Ends every exchange in the same way."""

    def __init__(self, ending: Ending | None = GOOD) -> None:
        self.ending = ending
        self.begun: list[Exchange] = []

    def begin(self, exchange: Exchange) -> None:
        self.begun.append(exchange)
        if self.ending is not None:
            exchange.deliver(exchange, Progress(b"{}"))
            exchange.end(self.ending)


def act(relay: Relay, profiles: dict[str, Profile], **config: Any) -> ActionOutcome:
    hook = HookConfig(name="h", on="x", call=("s", "post"), **config)
    action = CallAction(hook, profiles, relay.begin)
    return asyncio.run(action.act(HookEvent(CALL_LINE, "key", "b" * 16)))


def offering(*tools: str, **config: Any) -> dict[str, Profile]:
    server = FakeServer("s")
    server.offer(OfferKind.TOOLS, *tools)
    return {"default": profile_of(server, **config)}


def test_the_call_is_that_of_a_client_in_the_trace_of_the_event() -> None:
    relay = Relay()
    arguments = {"text": "{{ metadata.server }}!", "ms": "{{ duration_ms }}", "who": "{{ source }}"}

    told = act(relay, offering("post"), arguments=arguments)

    assert told == ActionDone(missing=("source",))
    [exchange] = relay.begun
    assert exchange.method.name == "tools/call"
    assert json.loads(exchange.params) == {
        "name": "s__post",
        "arguments": {"text": "s!", "ms": 5, "who": ""},
        "_meta": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
    }
    assert exchange.caller.principal == HOOK_PRINCIPAL
    assert exchange.caller.profile == "default"
    assert exchange.caller.session is None
    assert not exchange.caller.capabilities.interactive


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"prefix": "always"}, "s__post"),
        ({"prefix": "always", "separator": "/"}, "s/post"),
        ({"prefix": "never"}, "post"),
        ({"prefix": "on-conflict"}, "post"),
    ],
)
def test_the_tool_is_called_what_the_profile_calls_it_listed_or_not(
    config: dict[str, Any], name: str
) -> None:
    for tools in (("post",), ()):
        relay = Relay()
        act(relay, offering(*tools, **config))
        assert json.loads(relay.begun[0].params)["name"] == name


def test_the_first_profile_that_shows_the_tool_is_used() -> None:
    server, other = FakeServer("s"), FakeServer("o")
    server.offer(OfferKind.TOOLS, "post")
    profiles = {
        "without": profile_of(other),
        "denying": profile_of(server, deny=("post",)),
        "showing": profile_of(server),
    }
    profiles["showing"].slug = "showing"
    relay = Relay()

    act(relay, profiles)

    assert relay.begun[0].caller.profile == "showing"


def test_a_server_that_no_profile_has_cannot_be_called() -> None:
    assert act(Relay(), {}) == ActionFailed(reason="no profile has the server 's'")


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Answered(b'{"content":[],"isError":true}'), "the tool reported an error"),
        (ErrorAnswered(b'{"code":-32602,"message":"no"}'), "the server refused (-32602): no"),
        (Failed(not_running("s", "gone")), "Server 's' is not running: gone"),
    ],
)
def test_a_call_that_fails_is_not_made_again(ending: Ending, words: str) -> None:
    assert act(Relay(ending), offering("post")) == ActionFailed(reason=words)


@pytest.mark.parametrize(
    ("ending", "given", "denied"),
    [
        (GOOD, GOOD.result, False),
        (ErrorAnswered(b'{"code":1,"message":"no"}'), b'{"code":1,"message":"no"}', True),
        (Failed(not_running("s", "gone")), not_running("s", "gone").render(NEWEST_MODERN), True),
    ],
)
def test_the_record_has_what_the_hook_was_answered(
    ending: Ending, given: bytes, denied: bool
) -> None:
    relay = Relay(ending)
    transcript = Transcript(clock=lambda: 7.0)
    begin = relay.begin

    def begin_recorded(exchange: Exchange) -> None:
        exchange.transcript = transcript
        begin(exchange)

    relay.begin = begin_recorded  # type: ignore[method-assign]
    act(relay, offering("post"))

    assert (transcript.client_answer, transcript.client_failed, transcript.client_answered_at) == (
        given,
        denied,
        7.0,
    )


def test_a_call_that_nobody_waits_for_any_more_is_cancelled() -> None:
    relay = Relay(None)
    cancelled: list[bytes | None] = []

    async def scene() -> None:
        action = CallAction(
            HookConfig(name="h", on="x", call=("s", "post")), offering("post"), relay.begin
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_drop(action.act(HookEvent(CALL_LINE, "key", "b" * 16))))
            await until_begun(relay)
            relay.begun[0].on_cancel = cancelled.append
            task.cancel()

    asyncio.run(scene())

    assert cancelled == [None]


async def _drop(work: Any) -> None:
    await work


async def until_begun(relay: Relay, done: Callable[[], bool] | None = None) -> None:
    async with asyncio.timeout(20):
        while not relay.begun:
            await asyncio.sleep(0)


# Running a command: what it gets, how it ends, and that nothing of it stays.


EVENT: dict[str, Any] = {
    "timestamp": "2026-07-28T12:00:00.000000+00:00",
    "trace_id": "a" * 32,
    "event_type": "gateway.tool_call",
    "status": "failure",
    "metadata": {"server": "github", "profile": "dev", "tool": "create\0issue"},
    "error_message": "m" * 5000,
}


def occasion(event: dict[str, Any] = EVENT) -> HookEvent:
    return HookEvent(json.dumps(event).encode(), "key", "b" * 16)


def run(*argv: str, event: dict[str, Any] = EVENT) -> ActionOutcome:
    async def whole() -> ActionOutcome:
        process_spawner = ProcessSpawner()
        action = RunAction(
            HookConfig(name="h", on="x", run=argv),
            process_spawner,
            lambda text: text.replace("s3cret", "***"),
        )
        try:
            async with asyncio.timeout(30):
                return await action.act(occasion(event))
        finally:
            action.close()
            await process_spawner.close()

    return asyncio.run(whole())


def python(code: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code, *args)


def test_the_event_comes_on_stdin_and_in_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYPORT_SECRET", "not for it")
    file = tmp_path / "found"
    code = (
        "import json, os, sys\n"
        "found = {'event': json.loads(sys.stdin.read()), 'environ': dict(os.environ)}\n"
        "open(sys.argv[1], 'w').write(json.dumps(found))\n"
    )

    assert run(*python(code, str(file))) == ActionDone()

    found = json.loads(file.read_text())
    assert found["event"] == EVENT
    assert found["environ"]["ANYPORT_HOOK"] == "h"
    assert found["environ"]["ANYPORT_EVENT_SERVER"] == "github"
    assert found["environ"]["ANYPORT_EVENT_TARGET"] == "createissue"
    assert found["environ"]["TRACEPARENT"] == f"00-{'a' * 32}-{'b' * 16}-01"
    assert "ANYPORT_SECRET" not in found["environ"]


def test_variables_are_short_and_only_of_what_there_is() -> None:
    found = hook_environment("h", occasion())
    assert found["ANYPORT_EVENT_ERROR"] == "m" * VARIABLE_CHARS_MAX
    assert found["ANYPORT_EVENT_TYPE"] == "gateway.tool_call"

    bare = hook_environment("h", occasion({"trace_id": "", "event_type": "gateway.started"}))
    assert "ANYPORT_EVENT_SERVER" not in bare
    assert "ANYPORT_EVENT_ERROR" not in bare


def test_words_of_the_command_are_no_business_of_a_shell(tmp_path: Path) -> None:
    file = tmp_path / "found"
    code = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"

    assert run(*python(code, str(file), "$HOME; `x` {{ status }}")) == ActionDone()

    assert file.read_text() == "$HOME; `x` {{ status }}"


def test_a_command_that_does_not_read_is_no_fault_of_it() -> None:
    assert run(*python("pass"), event=EVENT | {"source": "x" * 30_000}) == ActionDone()


def test_a_command_that_fails_says_so_without_secrets() -> None:
    told = run(*python("import sys; sys.stderr.write('one\\nno s3cret\\n'); sys.exit(3)"))

    assert told == ActionFailed(reason="exit code 3; on stderr: no ***")


def test_a_command_that_is_not_there_is_told() -> None:
    told = run("no-such-command-anywhere")

    assert isinstance(told, ActionFailed)
    assert told.reason.startswith("it cannot be started: ")


def test_a_talkative_command_does_not_block() -> None:
    code = "import sys; print('x' * 3_000_000); sys.stderr.write('y' * 3_000_000)"

    assert run(*python(code)) == ActionDone()


def test_a_command_that_takes_too_long_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "RUN_SECONDS_MAX", 0.5)
    file = tmp_path / "pids"
    code = (
        "import os, sys, time\n"
        "child = os.fork()\n"
        "with open(sys.argv[1], 'a') as file: file.write(f'{os.getpid()}\\n')\n"
        "time.sleep(600)\n"
    )

    told = run(*python(code, str(file)))

    assert told == ActionFailed(reason="it was killed: it ran for more than 0.5 s")
    pids = [int(line) for line in file.read_text().split()]
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
