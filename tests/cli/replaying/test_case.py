"""What is sent again, and how the conversation is opened."""

import msgspec
import pytest

from anyport.cli.replaying.case import (
    CLIENT_INFO,
    Case,
    Opening,
    Said,
    case_of_fixture,
    opening_of,
    read_opening,
    revision_of,
)
from anyport.protocol import meta
from anyport.record.compare import Mode
from anyport.record.fixtures import Fixture


@pytest.mark.parametrize(
    ("params", "subject"),
    [(b'{"name":"add"}', "add"), (b'{"uri":"a:b"}', "a:b"), (b'{"name":1}', ""), (None, "")],
)
def test_a_request_is_about_something(params: bytes | None, subject: str) -> None:
    assert Case(name="a", method="tools/call", params=params).subject == subject


def test_a_fixture_is_a_case() -> None:
    fixture = Fixture(name="1.json", method="m", params=b"{}", id=b"1", expected={"result": 1})
    case = case_of_fixture(fixture)

    assert (case.name, case.params, case.expected) == ("1.json", b"{}", {"result": 1})
    assert (case.mode, case.is_notification) == (Mode.EXACT, False)
    assert case_of_fixture(Fixture(name="2.json", method="n")).is_notification


def test_a_handshake_says_how_a_conversation_is_opened() -> None:
    params = (
        b'{"protocolVersion":"2024-11-05","capabilities":{"roots":{}},"clientInfo":{"name":"x"}}'
    )
    greeting = Case(name="a", method="initialize", params=params)

    opening = opening_of([Case(name="b", method="ping"), greeting])
    assert (opening.revision, opening.capabilities) == ("2024-11-05", b'{"roots":{}}')
    assert opening.client_info == b'{"name":"x"}'
    assert read_opening(None) == Opening(client_info=CLIENT_INFO)


def test_a_request_may_say_its_revision_itself() -> None:
    params = msgspec.json.encode({"_meta": {meta.PROTOCOL_VERSION: "2026-07-28"}})
    case = Case(name="a", method="tools/list", params=params)

    assert revision_of(case) == "2026-07-28"
    assert opening_of([case], "2025-06-18").revision == "2026-07-28"
    assert opening_of([Case(name="b", method="ping")], "2025-06-18").revision == "2025-06-18"
    assert revision_of(Case(name="c", method="m", params=b'{"_meta":null}')) is None


def test_a_client_that_answered_a_question_declared_that_it_can() -> None:
    answers = (Said(method="roots/list", answer=b"{}"), Said(method="ping", answer=b"{}"))
    opening = opening_of([Case(name="a", method="tools/call", answers=answers)])
    assert msgspec.json.decode(opening.capabilities) == {"roots": {}}
