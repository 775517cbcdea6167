"""How the messages of a client travel: one transport for each kind of connection and era.

A transport only carries messages. It is built from the clients that other tests
use; what it adds is one way to wait, whichever stream a message comes on.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from tests.harness import MODERN_META, LineClient, Message
from tests.journeys.clients import ModernClient, SessionClient, SseClient
from tests.journeys.http_gateway import HttpAnswer

HANG_SECONDS: Final = 60.0
"""Far more than any message takes: who waits so long waits for ever."""


class ClientTransport(Protocol):
    """The connection to the gateway."""

    def start(self, message: Message) -> None:
        """Send a request."""

    def tell(self, message: Message) -> None:
        """Send what has no answer."""

    def coming(self, id: Any) -> Message:
        """The next message, while the answer to a request is awaited."""

    def cancel(self, id: Any) -> None:
        """Say that nobody waits for the answer to a request any more."""

    def close(self) -> None:
        """Leave."""


class StdioTransport:
    """Standard input and output, in either era."""

    def __init__(self, client: LineClient) -> None:
        self._client = client

    def start(self, message: Message) -> None:
        self._client.send(message)

    def tell(self, message: Message) -> None:
        self._client.send(message)

    def coming(self, _id: Any) -> Message:
        return self._client.next()

    def cancel(self, id: Any) -> None:
        self._client.notify("notifications/cancelled", {"requestId": id})

    def close(self) -> None:
        assert self._client.finish() == 0


class SessionTransport:
    """A session over Streamable HTTP, with its own stream open.

    A question may come on that stream or on that of the request, so all are read side by side.
    """

    def __init__(self, session: SessionClient) -> None:
        self._session = session
        self._arrived: queue.Queue[Message | BaseException] = queue.Queue()
        self._read(session.listen)

    def start(self, message: Message) -> None:
        session = self._session
        self._read(lambda: session.site.post(message, *session.fields))

    def tell(self, message: Message) -> None:
        self._session.tell(message)

    def coming(self, _id: Any) -> Message:
        message = self._arrived.get(timeout=HANG_SECONDS)
        if isinstance(message, BaseException):
            raise message
        return message

    def cancel(self, id: Any) -> None:
        self._session.notify("notifications/cancelled", {"requestId": id})

    def close(self) -> None:
        assert self._session.delete().status == 200

    def _read(self, open_stream: Callable[[], HttpAnswer]) -> None:
        def read() -> None:
            try:
                for message in open_stream().messages():
                    self._arrived.put(message)
            except Exception as error:  # noqa: BLE001 - for the one who waits
                self._arrived.put(error)

        threading.Thread(target=read, daemon=True).start()


class SseTransport:
    """HTTP+SSE: everything comes on one stream."""

    def __init__(self, client: SseClient) -> None:
        self._client = client
        self._messages = client.stream.messages()

    def start(self, message: Message) -> None:
        self._client.tell(message)

    def tell(self, message: Message) -> None:
        self._client.tell(message)

    def coming(self, _id: Any) -> Message:
        return next(self._messages)

    def cancel(self, id: Any) -> None:
        self._client.notify("notifications/cancelled", {"requestId": id})

    def close(self) -> None:
        self._client.stream.close()


class ModernTransport:
    """Streamable HTTP without sessions: each request has a stream, and hanging up cancels it."""

    def __init__(self, client: ModernClient) -> None:
        self._client = client
        self._answers: dict[Any, HttpAnswer] = {}

    def start(self, message: Message) -> None:
        params = {key: value for key, value in message["params"].items() if key != "_meta"}
        about = {k: v for k, v in message["params"]["_meta"].items() if k not in MODERN_META}
        id = message["id"]
        self._answers[id] = self._client.start(message["method"], params, id=id, **about)

    def tell(self, message: Message) -> None:
        raise AssertionError(f"a modern client over HTTP has nothing to tell: {message}")

    def coming(self, id: Any) -> Message:
        answer = self._answers[id]
        message = answer.next()
        if "method" not in message:
            self.cancel(id)
        return message

    def cancel(self, id: Any) -> None:
        self._answers.pop(id).close()

    def close(self) -> None:
        for id in list(self._answers):
            self.cancel(id)
