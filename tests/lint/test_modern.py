"""Rules of revisions without a handshake."""

from typing import Any

import pytest

from anyport.protocol import meta
from anyport.record.redact.redactor import MARK
from tests.lint.checking import broken, messages
from tests.lint.conversations import (
    ELICIT,
    FORMS,
    afresh,
    ask,
    give,
    hello,
    kept,
    question,
    stamped,
    whole,
)


@pytest.mark.parametrize("capabilities", [None, [], "none"])
def test_capabilities_are_an_object(capabilities: Any) -> None:
    params = stamped({}, **{meta.CLIENT_CAPABILITIES: capabilities})
    assert "request-envelope" in broken(ask("tools/list", params), give(kept(tools=[])))


def test_a_session_needs_no_envelope() -> None:
    found = broken(*hello(), ask("tools/list", {}), give({"tools": []}))
    assert not found


@pytest.mark.parametrize("method", ["tools/list", "resources/read", "server/discover"])
def test_what_may_be_used_again_says_for_how_long(method: str) -> None:
    assert "cache-hints" in broken(*afresh(method, whole()))
    assert "cache-hints" not in broken(*afresh(method, kept()))


def test_a_call_is_never_used_again() -> None:
    assert "cache-hints" not in broken(*afresh("tools/call", whole(content=[])))


@pytest.mark.parametrize("ttl", [-1, 1.5, "1", True])
def test_how_long_is_a_number_of_milliseconds(ttl: Any) -> None:
    result = whole(tools=[], ttlMs=ttl, cacheScope="public")
    assert "cache-hint-values" in broken(*afresh("tools/list", result))


def test_a_session_is_not_asked_in_a_result() -> None:
    asked = {"resultType": "input_required", "inputRequests": {"q": ELICIT}}
    assert "input-required" in broken(*hello(), ask("tools/call", {"name": "a"}), give(asked))


@pytest.mark.parametrize("entry", ["x", {}, {"method": "tools/list"}])
def test_what_is_no_question(entry: Any) -> None:
    assert "input-form" in broken(*question(entry, FORMS))


def test_what_asks_for_nothing() -> None:
    assert messages("input-form", *afresh("tools/call", {"resultType": "input_required"})) == [
        "it has neither inputRequests nor requestState"
    ]


def test_a_client_of_forms_is_asked_no_url() -> None:
    url = {"method": "elicitation/create", "params": {"mode": "url", "url": "https://a.example"}}

    assert "input-declared" in broken(*question(url, FORMS))
    assert "input-declared" not in broken(*question(url, {"elicitation": {"url": {}}}))


def test_a_state_that_was_redacted_cannot_be_known() -> None:
    said = afresh("tools/call", whole(content=[]), {"name": "a", "requestState": MARK})
    assert "request-state" not in broken(*said)
