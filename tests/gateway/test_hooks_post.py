"""Posting: what is sent, and what each reply means for the event."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from typing import Any

import pytest

from anyport.config.schema import HookConfig
from anyport.gateway import hooks_post
from anyport.gateway.hooks_action import Again, Done, GivenUp, Occasion, Outcome
from anyport.gateway.hooks_post import RETRY_AFTER_SECONDS_MAX, Post, read_retry_after
from anyport.upstream.http.place import BadUrl
from tests.gateway.receiver import Receiver, receiver

LINE = json.dumps(
    {
        "trace_id": "a" * 32,
        "event_type": "gateway.tool_call",
        "status": "failure",
        "metadata": {"server": "github"},
    }
).encode()
OCCASION = Occasion(LINE, "k" * 32, "b" * 16)

Scene = Callable[[Receiver], Coroutine[Any, Any, Any]]


def play(scene: Scene) -> Any:
    async def whole() -> Any:
        async with asyncio.timeout(20), receiver() as here:
            return await scene(here)

    return asyncio.run(whole())


async def post(here: Receiver, **config: Any) -> Outcome:
    action = Post(HookConfig(name="h", on="x", post=here.url, **config), lambda: 0.0)
    try:
        return await action.act(OCCASION)
    finally:
        action.close()


def outcome(*statuses: int | str) -> Outcome:
    async def scene(here: Receiver) -> Outcome:
        here.answer(*statuses)
        return await post(here)

    told: Outcome = play(scene)
    return told


def test_the_event_is_sent_as_the_journal_has_it() -> None:
    async def scene(here: Receiver) -> None:
        assert await post(here, headers={"Authorization": "Bearer x"}) == Done()
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
        assert await post(here, body=body) == Done(missing=("error_message",))
        assert here.events == [{"text": "github: ", "n": 1}]

    play(scene)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_delivery(status: int) -> None:
    assert outcome(status) == Done()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
def test_a_refusal_of_the_event_is_final(status: int) -> None:
    assert outcome(status) == GivenUp(words=f"it answered with HTTP {status}")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    told = outcome(f"{status} Location: http://127.0.0.1:1/")

    assert told == GivenUp(
        words=f"it answered with a redirect (HTTP {status}): set post to where it is"
    )


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_everything_else_is_tried_again(status: int) -> None:
    assert outcome(status) == Again(words=f"it answered with HTTP {status}")


def test_the_receiver_says_how_long_it_wants_to_be_left_alone() -> None:
    told = outcome("429 Retry-After: 17")

    assert told == Again(words="it answered with HTTP 429", after_seconds=17.0)


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
    async def scene(here: Receiver) -> Outcome:
        here.port = 1
        return await post(here)

    told = play(scene)

    assert isinstance(told, Again)
    assert not told.counts


def test_a_receiver_that_breaks_off_may_have_choked_on_it() -> None:
    async def scene(here: Receiver) -> Outcome:
        here.replies.append(b"HTTP/1.1 rubbish\r\n\r\n")
        return await post(here)

    told = play(scene)

    assert isinstance(told, Again)
    assert told.counts


def test_a_receiver_that_does_not_answer_is_given_up_for_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hooks_post, "POST_SECONDS_MAX", 0.05)

    async def scene(here: Receiver) -> Outcome:
        here.open.clear()
        return await post(here)

    assert play(scene) == Again(words="no reply within 0.05 s", counts=False)


def test_connections_are_used_again() -> None:
    async def scene(here: Receiver) -> None:
        action = Post(HookConfig(name="h", on="x", post=here.url), lambda: 0.0)
        for _ in range(3):
            assert await action.act(OCCASION) == Done()
        assert len(action._client.lines) == 1
        action.close()

    play(scene)


def test_a_url_that_is_none_cannot_be_posted_to() -> None:
    async def scene(here: Receiver) -> None:
        with pytest.raises(BadUrl):
            Post(HookConfig(name="h", on="x", post="ftp://x"), lambda: 0.0)

    play(scene)
