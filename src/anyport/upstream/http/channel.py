"""What all ways over HTTP have in common: a call is one POST, and its failure is its own.

Whatever goes wrong with one exchange ends that call and no other. That a connection could not be
opened is told to whoever guards the server. Eras and sessions are not known here.
"""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final, ParamSpec, cast

from anyport.protocol.errors import Situation
from anyport.protocol.room import Held
from anyport.protocol.timeouts import Timeout
from anyport.upstream.call import Call, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.http.client import Client
from anyport.upstream.http.line import Line, Trouble, TroubleKind
from anyport.upstream.http.notes import Notes
from anyport.upstream.http.outgoing import REDIRECTS_MAX, Outgoing, aimed, redirected
from anyport.upstream.http.verdict import (
    UNREACHED,
    cut_off,
    lost,
    not_now,
    unanswered,
    wait_of,
)
from anyport.upstream.sign import Sign
from anyport.wire import members
from anyport.wire.events import Event, EventSplitter
from anyport.wire.framing import Overlong
from anyport.wire.http import ReplyHead

ENDLESS_FACTOR: Final = 2
"""An event this many times over the limit, and still no end, is not a message: it never ends."""

FAREWELL_SECONDS: Final = 1.0
"""A server that has answered on a stream has at most this long to end it."""
OK: Final = 200
"""A plain number: the enumeration is slow to compare, and every reply is."""


class HttpChannel:
    """Carries calls; subclasses know how a request is addressed and an answer comes back."""

    full = False

    def __init__(
        self, client: Client, outgoing: Outgoing, on_over: Callable[[Connection, str], None]
    ) -> None:
        self.client = client
        self.outgoing = outgoing
        self.bytes_max = client.bytes_max
        self.loop = asyncio.get_running_loop()
        self.connection: Connection
        """Whose frames these are: set before anything is sent."""
        self._on_over = on_over
        self._notes = Notes(client, self.noticed)
        self.parting: set[Post] = set()
        """Calls that were answered on a stream which has not ended."""
        self._waits = False
        """Whether there is a time set for those to end."""

    def over(self, reason: str) -> None:
        """Nothing new can be sent; what is under way may still be answered."""
        if self.connection.over is None:
            self._on_over(self.connection, reason)

    def send(self, frame: bytes, call: Call | None) -> None:
        """Send a call, or something that is not answered."""
        raise NotImplementedError

    def cancel(self, call: Call) -> bool:
        """Go away from a call; that is not to cancel it: the server has to be told."""
        if isinstance(call, Post):
            call.close()
        return False

    def note(self, head: bytes, frame: bytes) -> None:
        """Send what is not answered."""
        self._notes.send(head, frame)

    def part(self, post: "Post") -> None:
        """A call was answered on its stream: most servers end it then, and others must."""
        self.parting.add(post)
        if not self._waits:
            self._waits = True
            self.loop.call_later(FAREWELL_SECONDS, self._farewell)

    def _farewell(self) -> None:
        self._waits = False
        parting, self.parting = self.parting, set()
        for post in parting:
            post.close()

    async def close(self) -> None:
        """Say farewell, where the server expects it."""

    # What becomes of a call.

    def answered(self, post: "Post", reply: ReplyHead, body: bytes) -> None:
        """A whole reply, which is no stream."""
        if reply.status != OK:
            if self.excused(post, reply, body):
                return
            wait = wait_of(reply)
            if wait is not None:
                self.connection.settle(post, not_now(reply, body, wait))
                return
        if body[:1] == b"{":
            self.connection.receive(body, post)
            if not self.connection.waits_for(post):
                return
        place = redirected(self.outgoing.place, reply) if post.hops < REDIRECTS_MAX else None
        if place is not None:
            post.hops += 1
            post.head = aimed(post.head, place)
            self.send_again(post)
            return
        self.connection.settle(post, unanswered(reply))

    def excused(self, post: "Post", reply: ReplyHead, body: bytes) -> bool:
        """Whether the call will be sent again, because the server did not even look at it."""
        return False

    def closed(self, post: "Post", trouble: Trouble | None) -> None:
        """The stream of a call is over."""
        if self.connection.waits_for(post):
            self._cancelled(post, trouble)
            self.connection.settle(post, cut_off(trouble))

    def failed(self, post: "Post", trouble: Trouble) -> None:
        """No reply came."""
        self._cancelled(post, trouble)
        self.connection.settle(post, lost(trouble))
        self.noticed(trouble)

    def _cancelled(self, post: "Post", trouble: Trouble | None) -> None:
        """Tell a server that may be at work that nobody waits for it any more."""
        # "the sender SHOULD issue a cancellation notification for that request" (timeouts).
        if trouble is None or trouble.kind is not TroubleKind.TIMEOUT or self.cancel(post):
            return
        told = [("requestId", b"%d" % post.number), ("reason", members.text(trouble.words))]
        self.connection.notify("notifications/cancelled", members.join(told))

    def noticed(self, trouble: Trouble) -> None:
        """Whatever it was that failed: that the server cannot be reached concerns everyone."""
        if trouble.kind in UNREACHED:
            self.connection.unreached(trouble.words)

    def send_again(self, post: "Post") -> None:
        """Send a request that the server has not taken."""
        self.client.request(post.head, post.frame, post)


class Post(Call):
    """One call, and what becomes of it on the wire."""

    channel: HttpChannel = cast(HttpChannel, None)
    """Set before it is sent."""
    head: bytes = b""
    line: Line | None = None
    splitter: EventSplitter | None = None
    """Once the answer has become a stream."""
    held: Held | None = None
    """What has come of its next event."""
    hops: int = 0
    tries: int = 0
    """How often its stream was taken up again in vain."""
    retried: bool = False
    session: str | None = None
    """The one that it was sent in."""

    waits: ClassVar[Timeout | None] = Timeout.FIRST_BYTE

    def answered(self, head: ReplyHead, body: bytes) -> None:
        """A whole reply."""
        channel = self.channel
        if head.status != OK or not channel.connection.settles(body, self):
            channel.answered(self, head, body)

    def opened(self, head: ReplyHead) -> None:
        """The answer will come on a stream, maybe the continuation of an earlier one."""
        self.splitter = continued(self.splitter, self.channel.bytes_max)
        self.held = self.held or Held(self.channel.connection.room)

    def portion(self, portion: bytes) -> None:
        """More of that stream."""
        splitter = self.splitter
        if splitter is None:
            return
        heard = hand_over(self.channel.connection, splitter, portion, self)
        if heard:
            self.tries = 0
            if not self.channel.connection.waits_for(self):
                self.channel.part(self)
        if splitter.pending > ENDLESS_FACTOR * splitter.bytes_max:
            self.close()
            words = f"sent an event of more than {splitter.pending} bytes without an end"
            self.channel.connection.settle(self, Lost(words, Situation.MISBEHAVED, Sign.BAD))

    def closed(self, trouble: Trouble | None) -> None:
        """The stream is over."""
        self._let_go()
        self.channel.parting.discard(self)
        self.channel.closed(self, trouble)

    def failed(self, trouble: Trouble) -> None:
        """No reply came."""
        self.channel.failed(self, trouble)

    def close(self) -> None:
        """Nobody wants the reply any more."""
        self._let_go()
        self.channel.client.give_up(self)

    def _let_go(self) -> None:
        if self.held is not None:
            self.held.let_go()


def continued(before: EventSplitter | None, bytes_max: int) -> EventSplitter:
    """Cuts a new stream that takes up an earlier one, if there was one."""
    splitter = EventSplitter(bytes_max)
    if before is not None:
        splitter.last_id, splitter.retry_ms = before.last_id, before.retry_ms
    return splitter


def hand_over(
    connection: Connection, splitter: EventSplitter, portion: bytes, of: Call | None
) -> bool:
    """Give the messages on a portion of a stream to the connection; whether there were any."""
    messages = splitter.messages(portion)
    if isinstance(of, Post) and of.held is not None:
        of.held.weigh(splitter)
    done = 0
    if of is not None and of.on_progress is not None:
        reports = connection.reports(messages, of)
        done = len(reports)
        if reports:
            _guarded(of.on_progress, reports)
    for raw in messages[done:]:
        _guarded(connection.receive, raw, of)
    return bool(messages)


def deliver(connection: Connection, event: Event | Overlong) -> None:
    """Give the message in one event to the connection."""
    raw = event if isinstance(event, Overlong) else event.data
    if raw:
        _guarded(connection.receive, raw, None)


P = ParamSpec("P")


def _guarded(take: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    try:
        take(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - it must not cost the events after it
        context = {"message": "A server's event was not taken", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
