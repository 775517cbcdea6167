"""What is sent again, and how the conversation is opened."""

import msgspec
import pytest

from anyport.cli.replay.cases import (
    CLIENT_INFO,
    ClientOpening,
    RecordedAnswer,
    ReplayCase,
    Unplayable,
    case_of_fixture,
    cases_of,
    has_redacted,
    opening_of,
    read_opening,
    revision_of,
    select_exchanges,
)
from anyport.protocol import meta
from anyport.record.compare import ABSENT, CompareMode
from anyport.record.fixtures import Fixture
from tests.cli.replay.recorded import called, detail, said


@pytest.mark.parametrize(
    ("params", "subject"),
    [(b'{"name":"add"}', "add"), (b'{"uri":"a:b"}', "a:b"), (b'{"name":1}', ""), (None, "")],
)
def test_a_request_is_about_something(params: bytes | None, subject: str) -> None:
    assert ReplayCase(name="a", method="tools/call", params=params).subject == subject


def test_a_fixture_is_a_case() -> None:
    fixture = Fixture(name="1.json", method="m", params=b"{}", id=b"1", expected={"result": 1})
    case = case_of_fixture(fixture)

    assert (case.name, case.params, case.expected) == ("1.json", b"{}", {"result": 1})
    assert (case.mode, case.is_notification) == (CompareMode.EXACT, False)
    assert case_of_fixture(Fixture(name="2.json", method="n")).is_notification


def test_a_handshake_says_how_a_conversation_is_opened() -> None:
    params = (
        b'{"protocolVersion":"2024-11-05","capabilities":{"roots":{}},"clientInfo":{"name":"x"}}'
    )
    greeting = ReplayCase(name="a", method="initialize", params=params)

    opening = opening_of([ReplayCase(name="b", method="ping"), greeting])
    assert (opening.revision, opening.capabilities) == ("2024-11-05", b'{"roots":{}}')
    assert opening.client_info == b'{"name":"x"}'
    assert read_opening(None) == ClientOpening(client_info=CLIENT_INFO)


def test_a_request_may_say_its_revision_itself() -> None:
    params = msgspec.json.encode({"_meta": {meta.PROTOCOL_VERSION: "2026-07-28"}})
    case = ReplayCase(name="a", method="tools/list", params=params)

    assert revision_of(case) == "2026-07-28"
    assert opening_of([case], "2025-06-18").revision == "2026-07-28"
    assert opening_of([ReplayCase(name="b", method="ping")], "2025-06-18").revision == "2025-06-18"
    assert revision_of(ReplayCase(name="c", method="m", params=b'{"_meta":null}')) is None


def test_a_client_that_answered_a_question_declared_that_it_can() -> None:
    answers = (
        RecordedAnswer(method="roots/list", answer=b"{}"),
        RecordedAnswer(method="ping", answer=b"{}"),
    )
    opening = opening_of([ReplayCase(name="a", method="tools/call", answers=answers)])
    assert msgspec.json.decode(opening.capabilities) == {"roots": {}}


def cases(*args: object, **row: object) -> list[ReplayCase]:
    side = str(row.pop("side", "server"))
    found = cases_of(detail(*args, **row), side)  # type: ignore[arg-type]
    assert isinstance(found, list)
    return found


def refused(*args: object, **row: object) -> str:
    side = str(row.pop("side", "server"))
    found = cases_of(detail(*args, **row), side)  # type: ignore[arg-type]
    assert isinstance(found, Unplayable)
    return found.reason


def test_what_cannot_be_played_has_its_target_by_the_name_of_each_side() -> None:
    unheard = detail(target="add", public_name="tiny__add")
    named = [cases_of(unheard, side) for side in ("client", "server")]
    assert [each.target for each in named if isinstance(each, Unplayable)] == ["tiny__add", "add"]


def test_each_side_has_what_it_said() -> None:
    both = [*called("tiny__add", side="client"), *called("add")]

    assert [case.subject for case in cases(*both)] == ["add"]
    [case] = cases(*both, side="client")
    assert (case.subject, case.expected) == ("tiny__add", {"result": {"content": []}})


def test_what_is_the_same_on_both_sides_is_known_on_both() -> None:
    frames = [
        called(side="client")[0],
        said("request", "server", same=True),
        said("response", "server", {"content": [1]}),
        said("response", "client", same=True),
    ]
    [case] = cases(*frames)
    assert (case.subject, case.expected) == ("add", {"result": {"content": [1]}})
    [case] = cases(*frames, side="client")
    assert case.expected == {"result": {"content": [1]}}


def test_an_error_is_expected_where_one_came() -> None:
    error = {"code": -7, "message": "Not today"}
    [case] = cases(called()[0], said("response", "server", error=error))
    assert case.expected == {"error": error}


def test_a_server_that_was_asked_again_is_asked_again() -> None:
    first, second = cases(*called(), *called(arguments={"a": 1}))
    assert [first.name, second.name] == ["00000000000000a1", "00000000000000a1#2"]


def test_what_a_client_answered_is_answered_again() -> None:
    request, answer = called()
    asked = {"method": "elicitation/create"}
    frames = [
        request,
        said("server-request", "client", {"message": "Who?"}, **asked),
        said("client-response", "client", {"action": "decline"}, **asked),
        said("client-response", "client", error={"code": 1, "message": "No"}, **asked),
        answer,
    ]
    [case] = cases(*frames)
    assert [(each.method, each.answer, each.failed) for each in case.answers] == [
        ("elicitation/create", b'{"action":"decline"}', False),
        ("elicitation/create", b'{"code":1,"message":"No"}', True),
    ]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"method": "subscriptions/listen"}, "a stream of notifications"),
        ({"method": "tasks/get"}, "no longer exists"),
        ({"method": "server/discover"}, "when the conversation is opened"),
    ],
)
def test_some_things_cannot_be_said_again(row: dict[str, str], words: str) -> None:
    assert words in refused(*called(), **row)


def test_what_was_not_kept_cannot_be_said_again() -> None:
    assert 'needs capture = "full"' in refused(payload_file=None)
    assert "was erased" in refused()
    assert "the gateway answered it itself" in refused(*called(side="client"))
    assert "the gateway sent it itself" in refused(*called(), side="client")
    assert refused(called()[0]) == "no answer to it was recorded"


def test_a_handshake_that_was_refused_is_not_made_again() -> None:
    frames = [said("request", "server", {}), said("response", "server", error={"code": 1})]
    reason = refused(*frames, method="initialize", error={"code": 1, "message": "No"})
    assert reason == "that handshake was refused"


def test_an_answer_that_was_too_large_to_keep_expects_nothing() -> None:
    [case] = cases(called()[0], said("response", "server"))
    assert case.expected is ABSENT


def test_exchanges_come_in_the_order_in_which_they_began() -> None:
    long = detail(id="long", timestamp="2026-07-28T12:00:02+00:00", timings={"total_ms": 2000.0})
    short = detail(id="short", timestamp="2026-07-28T12:00:01+00:00", timings={"total_ms": 1.0})
    frame = detail(id="frame", kind="server-notification")

    assert [each.row.id for each in select_exchanges([frame, short, long])] == ["long", "short"]


def test_what_was_redacted_is_seen() -> None:
    assert has_redacted(b'{"a":"[redacted]"}')
    assert not has_redacted(b'{"a":"b"}')
    assert not has_redacted(None)
