"""The ASGI adapter, whatever client and application do in the meantime."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.ingress.http.asgi import UNSENT_BYTES_PAUSE, Application, serve_asgi
from anyport.ingress.http.responder import Fields
from anyport.protocol.principal import LOCAL, Principal
from anyport.wire.http1 import RequestHead

DEADLINE_SECONDS = 60.0
START = {"type": "http.response.start", "status": 200, "headers": []}


class FakeResponder:
    """One request, its responder, and what the task of the application raised."""

    def __init__(self, target: str = "/", method: str = "GET", body: bytes = b"") -> None:
        self.head = RequestHead(
            method=method,
            target=target,
            fields=(("host", "localhost"), ("x-name", "é")),
            body_length=len(body),
            keep_alive=True,
            expects_continue=False,
        )
        self.sent_body = body
        self.principal: Principal = LOCAL
        self.on_closed: Callable[[], None] | None = None
        self.unsent_bytes = 0
        self.done: list[tuple[Any, ...]] = []
        self.raised: list[str] = []

    def answer(self, status: int, body: bytes = b"", fields: Fields = ()) -> None:
        self.done.append(("answer", status, body, list(fields)))

    def start(self, status: int, fields: Fields) -> None:
        self.done.append(("start", status, list(fields)))

    def write(self, *pieces: bytes) -> None:
        self.done += [("write", piece) for piece in pieces]

    def finish(self) -> None:
        self.done.append(("finish",))

    def disconnect(self) -> None:
        assert self.on_closed is not None
        self.on_closed()

    async def serve(self, app: Application) -> None:
        """Serve a request; the task has ended afterwards."""
        async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as group:

            def spawn(work: Coroutine[Any, Any, None], name: str) -> None:
                group.create_task(self._guarded(work))

            serve_asgi(app, self.head, self.sent_body, self, spawn)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - a test looks at it
            self.raised.append(str(error))


def served(app: Application, **request: Any) -> FakeResponder:
    asked = FakeResponder(**request)
    asyncio.run(asked.serve(app))
    return asked


def body(piece: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": piece, "more_body": more}


def test_the_application_learns_what_was_asked_and_by_whom() -> None:
    scopes: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        scopes.append(await receive())
        await send(START)
        await send(body(b""))

    served(app, target="/a%20b?q=1&r=%C3%A9", method="POST", body=b"sent")

    scope, message = scopes
    assert scope["type"] == "http"
    assert (scope["method"], scope["path"], scope["raw_path"]) == ("POST", "/a b", b"/a%20b")
    assert scope["query_string"] == b"q=1&r=%C3%A9"
    assert scope["headers"] == [(b"host", b"localhost"), (b"x-name", b"\xe9")]
    assert scope["state"] == {"principal": LOCAL}
    assert message == {"type": "http.request", "body": b"sent", "more_body": False}


def test_a_whole_answer_goes_out_whole_and_without_framing_of_its_own() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        fields = [(b"Content-Type", b"text/plain"), (b"content-length", b"99")]
        await send({"type": "http.response.start", "status": 201, "headers": fields})
        await send(body(b"made"))

    asked = served(app)

    assert asked.done == [("answer", 201, b"made", [("content-type", "text/plain")])]
    assert asked.raised == []


def test_an_answer_in_pieces_goes_out_in_pieces() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(body(b"one", more=True))
        await send(body(b"", more=True))
        await send(body(b"two"))

    asked = served(app)

    assert asked.done == [
        *(("start", 200, []), ("write", b"one"), ("write", b"two"), ("finish",)),
    ]


def test_a_head_request_gets_no_pieces() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(body(b"one", more=True))
        await send(body(b"two"))

    assert served(app, method="HEAD").done == [("start", 200, []), ("finish",)]


def test_the_application_waits_for_a_client_that_reads_slowly() -> None:
    asked = FakeResponder()
    written: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        asked.unsent_bytes = UNSENT_BYTES_PAUSE + 1
        asyncio.get_running_loop().call_later(0.01, read)
        await send(body(b"one", more=True))
        written.append(asked.unsent_bytes)
        await send(body(b"two"))

    def read() -> None:
        asked.unsent_bytes = 0

    asyncio.run(asked.serve(app))

    assert written == [0]
    assert asked.done[-1] == ("finish",)


def test_a_client_that_leaves_ends_the_wait_and_is_sent_nothing_more() -> None:
    asked = FakeResponder()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(START)
        asked.unsent_bytes = UNSENT_BYTES_PAUSE + 1
        asyncio.get_running_loop().call_soon(asked.disconnect)
        await send(body(b"one", more=True))
        assert await receive() == {"type": "http.disconnect"}
        await send(body(b"two"))

    asyncio.run(asked.serve(app))

    assert asked.done == [("start", 200, []), ("write", b"one")]
    assert asked.raised == []


def test_the_application_gets_the_disconnect_once_it_has_answered() -> None:
    heard: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(START)
        await send(body(b"all"))
        heard.append(await receive())

    served(app)

    assert heard == [{"type": "http.disconnect"}]


async def raises(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("secret reason")


async def starts_and_raises(scope: Any, receive: Any, send: Any) -> None:
    await send(START)
    raise RuntimeError("secret reason")


async def says_nothing(scope: Any, receive: Any, send: Any) -> None:
    pass


async def has_no_head(scope: Any, receive: Any, send: Any) -> None:
    await send(body(b"one"))


async def has_two_heads(scope: Any, receive: Any, send: Any) -> None:
    await send(START)
    await send(START)


@pytest.mark.parametrize(
    "app", [raises, starts_and_raises, says_nothing, has_no_head, has_two_heads]
)
def test_an_application_that_breaks_is_an_error_without_its_reason(app: Application) -> None:
    asked = served(app)

    [(kind, status, received, fields)] = asked.done
    assert (kind, status) == ("answer", 500)
    assert fields == [("content-type", "application/problem+json")]
    assert b"secret" not in received
    assert len(asked.raised) == 1


def test_an_application_that_breaks_in_the_middle_ends_its_answer() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(body(b"one", more=True))
        raise RuntimeError("broke")

    asked = served(app)

    assert asked.done == [("start", 200, []), ("write", b"one"), ("finish",)]
    assert asked.raised == ["broke"]
