"""What is recorded of questions: whoever asks whom, and in whichever way the eras make of it."""

import json

import pytest

from tests.journeys.capture_clients import RawExchange, raw_member, texts
from tests.journeys.capture_pairs import ASKED, PLAIN, TRACED, WITH_SESSION, WITHOUT, CapturePair


@pytest.mark.parametrize("tool", ASKED)
@pytest.mark.parametrize("pair", WITH_SESSION, indirect=True)
def test_a_question_and_its_answer_are_recorded_in_the_order_they_were_said(
    pair: CapturePair, tool: str
) -> None:
    method, asked, answer = ASKED[tool]
    talk = pair.front.start("tools/call", pair.calling(tool), **TRACED)
    heard = pair.front.heard(talk)
    given = pair.front.answers(next(m for m in heard if m.get("method") == method), answer)
    put = ("server-request", "client", raw_member(talk.frames[-1], "params"))
    assert "result" in next(heard)

    row = pair.book.row("tools/call")
    pair.check(row, talk)
    pair.check_trace(row, talk)
    sent = pair.ears.params("tools/call")
    begun = [("request", "client", talk.params), ("request", "server", sent[0])]
    ended = [("response", "server", pair.said(PLAIN)), ("response", "client", talk.answer)]
    if pair.bridges:
        assert texts(row) == [
            "response tools/call",
            f"server-request {method}",
            f"client-response {method}",
            "request tools/call",
        ]
        frames = pair.frames(row)
        assert frames[2][:2] == ("response", "server")
        assert json.loads(frames[2][2] or b"")["resultType"] == "input_required"
        assert frames == [
            *begun,
            frames[2],
            put,
            ("client-response", "client", given),
            ("request", "server", sent[1]),
            *ended,
        ]
    else:
        assert texts(row) == [f"server-request {method}", f"client-response {method}"]
        assert pair.frames(row) == [
            *begun,
            ("server-request", "server", json.dumps(asked).encode()),
            put,
            ("client-response", "client", given),
            ("client-response", "server", pair.ears.results()[0]),
            *ended,
        ]
    assert pair.book.asides("server-request") == []


@pytest.mark.parametrize("tool", ASKED)
@pytest.mark.parametrize("pair", WITHOUT, indirect=True)
def test_a_client_that_comes_back_with_answers_is_recorded_with_both_its_requests(
    pair: CapturePair, tool: str
) -> None:
    method, asked, answer = ASKED[tool]
    calling = pair.calling(tool)
    first = pair.front.ask("tools/call", calling, **TRACED)
    inquiry = json.loads(first.answer)
    (key,) = inquiry["inputRequests"]
    back = {"inputResponses": {key: answer}, "requestState": inquiry["requestState"]}
    second = pair.front.ask("tools/call", {**calling, **back}, **TRACED)

    sent = pair.ears.params("tools/call")
    ended = [("response", "server", pair.said(PLAIN)), ("response", "client", second.answer)]
    if not pair.bridges:
        opening, row = pair.book.rows()
        pair.check_client(opening, first)
        pair.check(row, second)
        assert opening["metadata"]["params_hash"] == row["metadata"]["params_hash"]
        assert pair.frames(row) == [
            ("request", "client", second.params),
            ("request", "server", sent[1]),
            *ended,
        ]
        return
    row = pair.book.row("tools/call")  # To its server it is one call.
    whole = RawExchange(first.id, first.method, first.params, second.frames)
    pair.check(row, whole)
    pair.check_trace(row, whole)
    assert texts(row) == [
        f"server-request {method}",
        "response tools/call",
        "request tools/call",
        f"client-response {method}",
    ]
    assert pair.frames(row) == [
        ("request", "client", first.params),
        ("request", "server", sent[0]),
        ("server-request", "server", json.dumps(asked).encode()),
        ("response", "client", first.answer),
        ("request", "client", second.params),
        ("client-response", "server", pair.ears.results()[0]),
        *ended,
    ]
    assert pair.book.asides("server-request") == []


@pytest.mark.parametrize("pair", WITHOUT, indirect=True)
def test_a_client_that_comes_back_to_nothing_has_a_row_that_says_so(pair: CapturePair) -> None:
    stale = {**pair.calling("elicit"), "requestState": "stale", "inputResponses": {}}
    talk = pair.front.ask("tools/call", stale, **TRACED)

    row = pair.book.row("tools/call")
    pair.check_client(row, talk, "gateway_error")
    assert (row["metadata"]["server"], row["metadata"]["tool"]) == (pair.back, "elicit")
    assert pair.ears.params("tools/call") == []
