"""JSON or a stream: what becomes of an answer."""

from http import HTTPStatus

import pytest

from anyport.demo.faults import Unanswered
from anyport.demo.http.answers import Answer
from anyport.demo.http.connection import Response
from anyport.demo.http.events import FleetingStream
from anyport.demo.options import Style
from anyport.demo.revisions import Json
from tests.demo.http.fakes import FakeTransport

NOTICE: Json = {"method": "notifications/message"}
QUESTION: Json = {"id": 1, "method": "roots/list"}
RESULT: Json = {"id": 1, "result": {}}
ERROR: Json = {"id": 1, "error": {"code": 7, "message": ""}}


class Posted:
    def __init__(self, style: Style | None = None) -> None:
        self.transport = FakeTransport()
        self.answer = Answer(
            Response(self.transport, chunks=False, closes=False),
            FleetingStream(),
            style,
            statuses={7: HTTPStatus.NOT_FOUND},
            headers=lambda: {"X-Name": "me"},
        )

    def kind(self) -> str:
        assert b"X-Name: me" in self.transport.written
        status, _, head = self.transport.written.partition(b"\r\n")
        kind = "stream" if b"text/event-stream" in head else "json" if b"json" in head else "none"
        return f"{status.split()[1].decode()} {kind}"


@pytest.mark.parametrize(
    ("style", "sent", "finish", "kind"),
    [
        (None, [], RESULT, "200 json"),
        (None, [], [RESULT], "200 json"),
        (None, [], ERROR, "404 json"),
        (None, [], None, "202 none"),
        (None, [NOTICE], RESULT, "200 stream"),
        (None, [QUESTION], ERROR, "200 stream"),
        (None, [NOTICE], None, "200 stream"),
        ("json", [NOTICE], RESULT, "200 json"),
        ("json", [NOTICE], None, "202 none"),
        ("sse", [], RESULT, "200 stream"),
        ("sse", [], ERROR, "404 json"),
        ("sse", [], None, "202 none"),
    ],
)
def test_an_answer_is_a_stream_only_where_it_must_be(
    style: Style | None, sent: list[Json], finish: Json | list[Json] | None, kind: str
) -> None:
    posted = Posted(style)
    for message in sent:
        posted.answer.send(message)
    posted.answer.finish(finish)

    assert posted.kind() == kind
    if kind.endswith("stream"):
        expected = len(sent) + (finish is not None)
        assert posted.transport.body().count(b"data: ") == expected


def test_nothing_is_written_while_there_is_nothing_to_say() -> None:
    waiting, streaming = Posted(), Posted("sse")
    for posted in (waiting, streaming):
        posted.answer.wait()

    assert waiting.transport.written == b""
    assert streaming.kind() == "200 stream"


def test_the_answers_to_a_batch_come_one_by_one_on_a_stream() -> None:
    posted = Posted()
    posted.answer.send(NOTICE)
    posted.answer.finish([RESULT, RESULT])

    assert posted.transport.body().count(b"data: {") == 3


def test_a_question_that_cannot_be_asked_is_not_waited_for() -> None:
    with pytest.raises(Unanswered, match="no stream"):
        Posted("json").answer.send(QUESTION)
