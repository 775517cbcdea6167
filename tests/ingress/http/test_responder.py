"""A connection as an HTTP responder."""

from anyport.ingress.http.responder import HttpResponder
from tests.ingress.http.stage import Stage, play, raw_request, settle


def test_a_connection_can_be_replied_on_in_one_piece_or_in_many() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(raw_request("GET", "/a", None, {}))
        whole: HttpResponder = stage.app_requests[0][2]
        whole.answer(200, b"one", (("content-type", "text/plain"),))
        await settle()
        client.send(raw_request("POST", "/b", b"body", {}))
        pieces: HttpResponder = stage.app_requests[1][2]
        pieces.start(201, (("x-a", "b"),))
        pieces.write(b"two")
        await settle()
        assert not client.responses[-1].whole
        pieces.finish()
        await settle()

        first, second = client.responses
        assert (first.status, first.body) == (200, b"one")
        assert (second.status, second.body, second.whole) == (201, b"two", True)
        assert second.head.get("x-a") == "b"
        assert stage.app_requests[1][1] == b"body"

    play(scene)


def test_a_responder_gets_one_callback_when_the_client_disconnects() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(raw_request("GET", "/a", None, {}))
        response, received = stage.app_requests[0][2], list[str]()
        response.start(200, ())
        response.on_closed = lambda: received.append("closed")
        client.transport.unsent = 7
        assert response.unsent_bytes == 7

        client.disconnect()
        await settle()
        response.write(b"late")
        response.finish()

        assert received == ["closed"]
        assert response.unsent_bytes == 0

    play(scene)


def test_a_disconnect_after_the_answer_has_no_effect() -> None:
    async def scene(stage: Stage) -> None:
        client = stage.client()
        client.send(raw_request("GET", "/a", None, {}))
        response, received = stage.app_requests[0][2], list[str]()
        response.on_closed = lambda: received.append("closed")
        response.answer(200, b"one")
        client.disconnect()
        await settle()

        assert received == []

    play(scene)
