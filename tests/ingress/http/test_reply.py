"""A connection is what whoever answers a request expects of the way back."""

from anyport.ingress.http.reply import Reply
from tests.ingress.http.stage import Stage, play, raw_request, settle


def test_a_connection_can_be_replied_on_in_one_piece_or_in_many() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(raw_request("GET", "/a", None, {}))
        whole: Reply = stage.asides[0][2]
        whole.answer(200, b"one", (("content-type", "text/plain"),))
        await settle()
        visitor.send(raw_request("POST", "/b", b"body", {}))
        pieces: Reply = stage.asides[1][2]
        pieces.start(201, (("x-a", "b"),))
        pieces.write(b"two")
        await settle()
        assert not visitor.replies[-1].whole
        pieces.finish()
        await settle()

        first, second = visitor.replies
        assert (first.status, first.body) == (200, b"one")
        assert (second.status, second.body, second.whole) == (201, b"two", True)
        assert second.head.get("x-a") == "b"
        assert stage.asides[1][1] == b"body"

    play(scene)


def test_who_replies_is_told_once_when_the_client_goes_away() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(raw_request("GET", "/a", None, {}))
        reply, told = stage.asides[0][2], list[str]()
        reply.start(200, ())
        reply.on_closed = lambda: told.append("closed")
        visitor.transport.unsent = 7
        assert reply.unsent_bytes == 7

        visitor.leave()
        await settle()
        reply.write(b"late")
        reply.finish()

        assert told == ["closed"]
        assert reply.unsent_bytes == 0

    play(scene)


def test_a_client_that_goes_away_after_the_answer_concerns_nobody() -> None:
    async def scene(stage: Stage) -> None:
        visitor = stage.visitor()
        visitor.send(raw_request("GET", "/a", None, {}))
        reply, told = stage.asides[0][2], list[str]()
        reply.on_closed = lambda: told.append("closed")
        reply.answer(200, b"one")
        visitor.leave()
        await settle()

        assert told == []

    play(scene)
