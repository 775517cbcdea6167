"""The stream of a session on which a server says what belongs to no call.

Not every server has one. Where there is one it is kept open: closed by whomever, it is asked for
again, later and later if it does not last.
"""

from asyncio import TimerHandle
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from anyport.protocol.timeouts import Timeout
from anyport.upstream.backoff import DELAY_SECONDS_MAX, Backoff
from anyport.upstream.http.channel import ENDLESS_FACTOR, continued, hand_over
from anyport.upstream.http.line import Line, Trouble
from anyport.wire.events import EventSplitter
from anyport.wire.http import ReplyHead

if TYPE_CHECKING:
    from anyport.upstream.http.session import SessionChannel

_NOT_NOW: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class Standing:
    """Keeps one stream open."""

    waits = Timeout.STREAM_IDLE

    def __init__(self, channel: "SessionChannel", chance: Callable[[], float]) -> None:
        self._channel = channel
        self._chance = chance
        self._backoff = Backoff()
        self.line: Line | None = None
        self._splitter: EventSplitter | None = None
        self._since: float | None = None
        """When the stream that is open now began."""
        self._timer: TimerHandle | None = None
        """When it is asked for again."""
        self._done = False

    def open(self) -> None:
        """Ask for the stream."""
        self._timer = None
        if self._done or self._channel.connection.over is not None:
            return
        last_id = "" if self._splitter is None else self._splitter.last_id
        head = self._channel.stream_head(last_id)
        self._channel.client.request(head, None, self)

    def renew(self) -> None:
        """There is a new session: what was numbered in the old one means nothing in it."""
        self._stop()
        self._splitter, self._since = None, None
        self.open()

    def close(self) -> None:
        """Nobody listens any more."""
        self._done = True
        self._stop()

    def opened(self, head: ReplyHead) -> None:
        """It is there."""
        self._since = self._channel.loop.time()
        self._splitter = continued(self._splitter, self._channel.bytes_max)

    def portion(self, portion: bytes) -> None:
        """The server says something."""
        splitter = self._splitter
        if splitter is None:
            return
        hand_over(self._channel.connection, splitter, portion, None)
        if splitter.pending > ENDLESS_FACTOR * splitter.bytes_max:
            self._channel.client.give_up(self)
            self._splitter = None
            self._again()

    def answered(self, head: ReplyHead, body: bytes) -> None:
        """No stream came. A server that has none says 405; others find other words."""
        if head.status >= HTTPStatus.INTERNAL_SERVER_ERROR or head.status in _NOT_NOW:
            self._again()
        elif head.status == HTTPStatus.NOT_FOUND and self._splitter is not None:
            # It had one: what it does not find is the session.
            self._channel.forgotten()

    def closed(self, trouble: Trouble | None) -> None:
        """The stream is over."""
        self._again()

    def failed(self, trouble: Trouble) -> None:
        """No reply came."""
        self._channel.noticed(trouble)
        self._again()

    def _again(self) -> None:
        if self._done or self._channel.connection.over is not None:
            return
        lasted = None if self._since is None else self._channel.loop.time() - self._since
        self._since = None
        wished = 0.0 if self._splitter is None else (self._splitter.retry_ms or 0) / 1000
        delay = self._backoff.delay(lasted, self._chance())
        wait = max(delay, min(wished, DELAY_SECONDS_MAX))
        self._timer = self._channel.loop.call_later(wait, self.open)

    def _stop(self) -> None:
        """Neither a stream nor the wish for one is left."""
        self._channel.client.give_up(self)
        if self._timer is not None:
            self._timer.cancel()
