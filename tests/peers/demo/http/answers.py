"""The response to one POST: plain JSON if that is enough, else a stream of events.

Nothing is written before it must be, so that an error can still set the status.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus

import msgspec

from tests.peers.demo.faults import Unanswered
from tests.peers.demo.http.connection import JSON, Fields, Response
from tests.peers.demo.http.events import EventStream
from tests.peers.demo.options import Style
from tests.peers.demo.revisions import Json


class Answer:
    """The channel back to the one who posted a message."""

    def __init__(
        self,
        response: Response,
        stream: EventStream,
        style: Style | None,
        *,
        statuses: Mapping[int, HTTPStatus],
        headers: Callable[[], Fields],
    ) -> None:
        self._response = response
        self._stream = stream
        self._style = style
        self._statuses = statuses
        """The statuses that belong to errors, by their codes; the others go out as 200."""
        self._headers = headers
        self._streams = False
        self._finished = False

    def send(self, message: Json) -> None:
        if self._style == "json":
            drop(message)
            return
        self._open()
        self._stream.send(message)

    def finish(self, answer: Json | list[Json] | None) -> None:
        self._finished = True
        status = self._status(answer)
        if answer is None and self._streams:
            self._stream.give_up()
        elif answer is None:
            self._response.whole(HTTPStatus.ACCEPTED, self._headers())
        elif not self._streams and (self._style != "sse" or status != HTTPStatus.OK):
            headers = {**JSON, **self._headers()}
            self._response.whole(status, headers, msgspec.json.encode(answer))
        else:
            self._open()
            for message in answer if isinstance(answer, list) else [answer]:
                self._stream.send(message)
            self._stream.end()

    def wait(self) -> None:
        """Called when there is no answer yet: a stream may as well begin."""
        if self._style == "sse" and not self._finished:
            self._open()

    def _open(self) -> None:
        if not self._streams:
            self._streams = True
            self._stream.attach(self._response, self._headers())

    def _status(self, answer: Json | list[Json] | None) -> HTTPStatus:
        if isinstance(answer, dict) and "error" in answer:
            return self._statuses.get(answer["error"]["code"], HTTPStatus.OK)
        return HTTPStatus.OK


def drop(message: Json) -> None:
    """What becomes of a message where there are no streams.

    Raises:
        Unanswered: it is a question, and nobody should wait for the answer.
    """
    if "id" in message:
        raise Unanswered("The server has no stream on which it could ask the client")
