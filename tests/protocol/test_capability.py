"""What a client declared is read and kept; what the gateway declares depends on nothing."""

import pytest

from anyport.protocol.capability import (
    NOTHING,
    ClientCapabilities,
    client_capabilities,
    gateway_capabilities,
)
from anyport.protocol.revision import REVISIONS


def declared(raw: bytes) -> ClientCapabilities:
    found = client_capabilities(raw)
    assert found is not None
    return found


def test_a_client_that_says_nothing_can_be_asked_nothing() -> None:
    assert client_capabilities(None) is NOTHING
    assert not NOTHING.interactive
    assert not declared(b"{}").interactive


def test_the_questions_a_client_answers_are_those_it_declares_as_objects() -> None:
    found = declared(b'{"sampling":{},"elicitation":null,"roots":{"listChanged":true},"x":{}}')

    assert found.questions == {"sampling", "roots"}
    assert found.interactive


@pytest.mark.parametrize(
    ("raw", "url"),
    [
        (b'{"elicitation":{}}', False),
        (b'{"elicitation":{"form":{}}}', False),
        (b'{"elicitation":{"url":{}}}', True),
        (b'{"elicitation":{"url":null}}', False),
        (b'{"elicitation":7}', False),
        (b"{}", False),
    ],
)
def test_elicitation_by_url_must_be_declared_by_itself(raw: bytes, url: bool) -> None:
    assert declared(raw).elicitation_url is url


def test_unknown_members_are_kept_as_they_came() -> None:
    raw = b'{ "extensions": {"io.modelcontextprotocol/ui": {"n": 1.0}} }'

    assert declared(raw).raw == raw


@pytest.mark.parametrize("raw", [b"null", b"[]", b"true", b'"all"', b"1"])
def test_a_declaration_that_is_no_object_is_none(raw: bytes) -> None:
    assert client_capabilities(raw) is None


def test_the_gateway_declares_all_that_it_can_serve() -> None:
    newest = gateway_capabilities(REVISIONS["2026-07-28"])

    assert newest == {
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "tools": {"listChanged": True},
        "completions": {},
    }


def test_the_first_revision_has_no_word_for_completions() -> None:
    assert "completions" not in gateway_capabilities(REVISIONS["2024-11-05"])
