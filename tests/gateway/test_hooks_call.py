"""Calling a tool: the exchange that is begun, and what its ending means."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from anyport.config.schema import HookConfig
from anyport.gateway.hooks_action import Done, GivenUp, Occasion, Outcome
from anyport.gateway.hooks_call import PRINCIPAL, Call
from anyport.gateway.profile import Profile
from anyport.protocol.errors import not_running
from anyport.protocol.exchange import Answered, Ending, Exchange, Failed, Progress, Refused
from anyport.protocol.method import Kind
from anyport.protocol.passage import Passage
from anyport.protocol.revision import NEWEST_MODERN
from tests.gateway.fakes import FakeServer, profile_of

LINE = json.dumps(
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
            exchange.tell(exchange, Progress(b"{}"))
            exchange.end(self.ending)


def act(relay: Relay, profiles: dict[str, Profile], **config: Any) -> Outcome:
    hook = HookConfig(name="h", on="x", call=("s", "post"), **config)
    action = Call(hook, profiles, relay.begin)
    return asyncio.run(action.act(Occasion(LINE, "key", "b" * 16)))


def offering(*tools: str, **config: Any) -> dict[str, Profile]:
    server = FakeServer("s")
    server.offer(Kind.TOOLS, *tools)
    return {"default": profile_of(server, **config)}


def test_the_call_is_that_of_a_client_in_the_trace_of_the_event() -> None:
    relay = Relay()
    arguments = {"text": "{{ metadata.server }}!", "ms": "{{ duration_ms }}", "who": "{{ source }}"}

    told = act(relay, offering("post"), arguments=arguments)

    assert told == Done(missing=("source",))
    [exchange] = relay.begun
    assert exchange.method.name == "tools/call"
    assert json.loads(exchange.params) == {
        "name": "s__post",
        "arguments": {"text": "s!", "ms": 5, "who": ""},
        "_meta": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
    }
    assert exchange.caller.principal == PRINCIPAL
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
    server.offer(Kind.TOOLS, "post")
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
    assert act(Relay(), {}) == GivenUp(words="no profile has the server 's'")


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Answered(b'{"content":[],"isError":true}'), "the tool reported an error"),
        (Refused(b'{"code":-32602,"message":"no"}'), "the server refused (-32602): no"),
        (Failed(not_running("s", "gone")), "Server 's' is not running: gone"),
    ],
)
def test_a_call_that_fails_is_not_made_again(ending: Ending, words: str) -> None:
    assert act(Relay(ending), offering("post")) == GivenUp(words=words)


@pytest.mark.parametrize(
    ("ending", "given", "denied"),
    [
        (GOOD, GOOD.result, False),
        (Refused(b'{"code":1,"message":"no"}'), b'{"code":1,"message":"no"}', True),
        (Failed(not_running("s", "gone")), not_running("s", "gone").render(NEWEST_MODERN), True),
    ],
)
def test_the_record_has_what_the_hook_was_answered(
    ending: Ending, given: bytes, denied: bool
) -> None:
    relay = Relay(ending)
    passage = Passage(clock=lambda: 7.0)
    begin = relay.begin

    def begin_recorded(exchange: Exchange) -> None:
        exchange.passage = passage
        begin(exchange)

    relay.begin = begin_recorded  # type: ignore[method-assign]
    act(relay, offering("post"))

    assert (passage.given, passage.denied, passage.given_at) == (given, denied, 7.0)


def test_a_call_that_nobody_waits_for_any_more_is_cancelled() -> None:
    relay = Relay(None)
    cancelled: list[bytes | None] = []

    async def scene() -> None:
        action = Call(
            HookConfig(name="h", on="x", call=("s", "post")), offering("post"), relay.begin
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_drop(action.act(Occasion(LINE, "key", "b" * 16))))
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
