"""The states with which modern clients come back to a call."""

import json
from dataclasses import replace
from typing import Any

import pytest

from anyport.gateway.elicitation.request_state import (
    INVALID_STATE,
    ROUNDS_MAX,
    STATE_BYTES_MAX,
    STATE_SECONDS_MAX,
    RequestStates,
)
from anyport.protocol.errors import Fault, Situation
from anyport.protocol.exchange import Caller
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Era
from anyport.protocol.sealing import KEY_BYTES, Seal
from tests.gateway.fakes import LEGACY, MODERN, Asked, FakeSession, caller

CALL = {"name": "s__ask", "arguments": {"a": 1, "b": [1.5, None]}}
ME = caller(None, MODERN)


class Scene:
    """One gateway, or another with the same keys."""

    def __init__(self, key: bytes = bytes(KEY_BYTES)) -> None:
        self.now = 1000.0
        self.states = RequestStates(Seal([key]), lambda: self.now)

    def bind(self, inner: bytes | None = b'"inner"', rounds: int = 0, **more: Any) -> Any:
        asked = Asked("tools/call", CALL, ME)
        asked.exchange.input_rounds = rounds
        state = self.states.bind(asked.exchange, "s", inner, **more)
        return state if isinstance(state, str) else json.loads(state)

    def unbind(
        self, params: Any, by: Caller = ME, slug: str = "s", era: Era = Era.MODERN
    ) -> dict[str, Any] | Fault:
        self.asked = Asked("tools/call", params, by)
        exchange = self.asked.exchange
        outcome = self.states.unbind(exchange, exchange.params, slug, era)
        return outcome if isinstance(outcome, Fault) else dict(json.loads(outcome))


def is_invalid(outcome: object) -> bool:
    return isinstance(outcome, Fault) and outcome.message == INVALID_STATE


def test_a_server_gets_its_own_state_back_byte_for_byte() -> None:
    scene = Scene()
    state = scene.bind(b'"in\\u006eer"')
    asked = Asked("tools/call", {**CALL, "requestState": state}, ME).exchange

    assert b'"requestState":"in\\u006eer"' in scene.states.unbind(
        asked, asked.params, "s", Era.MODERN
    )  # type: ignore[operator]


def test_a_server_that_gave_no_state_gets_none() -> None:
    scene = Scene()
    back = {**CALL, "inputResponses": {"k": {}}, "requestState": scene.bind(None)}

    assert scene.unbind(back) == {**CALL, "inputResponses": {"k": {}}}


def test_a_state_outlives_the_process_that_made_it() -> None:
    state = Scene().bind()

    assert scene_of(Scene().unbind({**CALL, "requestState": state})) == "inner"
    assert is_invalid(Scene(b"x" * KEY_BYTES).unbind({**CALL, "requestState": state}))


def scene_of(outcome: dict[str, Any] | Fault) -> object:
    assert isinstance(outcome, dict)
    return outcome["requestState"]


def test_the_same_arguments_in_another_spelling_are_the_same() -> None:
    scene = Scene()
    back = {"arguments": {"b": [1.5, None], "a": 1}, "name": "s__ask", "requestState": scene.bind()}

    assert scene_of(scene.unbind(back)) == "inner"


@pytest.mark.parametrize(
    ("changes", "by", "slug"),
    [
        ({"arguments": {"a": 2, "b": [1.5, None]}}, ME, "s"),
        ({"name": "s__other"}, ME, "s"),
        ({}, replace(ME, principal=Principal("token", "other")), "s"),
        ({}, replace(ME, profile="other"), "s"),
        ({}, ME, "other"),
        ({"requestState": "made up"}, ME, "s"),
        ({"requestState": 5}, ME, "s"),
        ({"requestState": ""}, ME, "s"),
        ({"requestState": "x" * 1_000_000}, ME, "s"),
    ],
    ids=["arguments", "tool", "person", "profile", "server", "text", "number", "empty", "huge"],
)
def test_a_state_is_good_for_its_caller_and_call_alone(
    changes: dict[str, Any], by: Caller, slug: str
) -> None:
    scene = Scene()

    assert is_invalid(scene.unbind({**CALL, "requestState": scene.bind(), **changes}, by, slug))


def test_a_state_expires() -> None:
    scene = Scene()
    back = {**CALL, "requestState": scene.bind()}
    scene.now += STATE_SECONDS_MAX - 2
    assert not is_invalid(scene.unbind(back))
    scene.now += 2

    assert is_invalid(scene.unbind(back))


def test_the_rounds_are_counted_in_the_state() -> None:
    scene = Scene()
    rounds = 0
    for _ in range(ROUNDS_MAX):
        scene.unbind({**CALL, "requestState": scene.bind(rounds=rounds)})
        rounds = scene.asked.exchange.input_rounds

    assert rounds == ROUNDS_MAX
    assert scene.bind(rounds=rounds) == "asked more than 10 times without answering"


def test_a_state_too_large_to_travel_is_refused() -> None:
    scene = Scene()

    assert len(scene.bind(b'"%b"' % (b"x" * (STATE_BYTES_MAX - 2)))) < 2 * STATE_BYTES_MAX
    assert scene.bind(b'"%b"' % (b"x" * STATE_BYTES_MAX)).startswith("gave a state of more than")


def test_what_an_era_has_no_word_for_is_not_sent() -> None:
    scene = Scene()
    mine = caller(FakeSession(), LEGACY)
    back = {**CALL, "inputResponses": {}, "requestState": "forged"}

    assert scene.unbind(back, mine) == CALL
    assert scene.unbind({**CALL, "inputResponses": {}}, era=Era.LEGACY) == CALL
    assert scene.unbind({**CALL, "inputResponses": {}}) == {**CALL, "inputResponses": {}}
    assert is_invalid(scene.unbind({**CALL, "requestState": scene.bind()}, era=Era.LEGACY))


@pytest.mark.parametrize("era", list(Era))
def test_a_call_that_is_over_at_the_server_is_made_anew_if_that_was_agreed_to(era: Era) -> None:
    scene = Scene()
    back = {**CALL, "requestState": scene.bind(None, starts_over=True)}

    agreed = {"u1": {"action": "accept"}, "u2": {"action": "accept"}}
    assert scene.unbind({**back, "inputResponses": agreed}, era=era) == CALL
    for answers in ({}, {"u1": {"action": "decline"}}, {"u1": 5}, 5):
        outcome = scene.unbind({**back, "inputResponses": answers}, era=era)
        assert isinstance(outcome, Fault)
        assert outcome.situation is Situation.MISBEHAVED
