"""The way to a gateway that runs elsewhere: a legacy session over Streamable HTTP.

A request is a POST, and what belongs to it comes back on its reply; what belongs to no request
comes on a stream of its own, for those who listen. The gateway is ours and near, so a reply that
breaks off is a failure to be told, not one to be mended.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from anyport.cli.caller import REVISION, Hear, Line, Lost
from anyport.cli.ending import CommandFailed
from anyport.cli.reach import Reach, refusal, unreachable
from anyport.cli.target import Target
from anyport.upstream.http.line import Line as Wire
from anyport.upstream.http.line import Trouble
from anyport.wire import codec
from anyport.wire.events import Event, EventSplitter
from anyport.wire.frame import Failure, Result
from anyport.wire.http import ReplyHead

ACCEPTED: Final = "application/json, text/event-stream"
SESSION: Final = "mcp-session-id"

PARTING_SECONDS_MAX: Final = 2.0
"""For what is still to be said when a command is over: that a call is cancelled, and goodbye."""


class Outside:
    """One client's line to it."""

    def __init__(self, reach: Reach, hear: Hear) -> None:
        self.reach = reach
        self.hear = hear
        self._session: str | None = None
        self._said: set[asyncio.Future[None]] = set()
        """What was sent without awaiting an answer, until it is there."""

    def tell(self, frame: bytes, on_lost: Lost | None = None) -> None:
        """POST a frame."""
        head = self._head("POST", Accept=ACCEPTED, Content_Type="application/json")
        begun = self._note() if on_lost is None else None
        self.reach.send(head, frame, _Post(self, on_lost, begun))

    async def listen(self) -> None:
        """Hear also what belongs to no request, if the gateway has that to offer."""
        begun = asyncio.get_running_loop().create_future()
        head = self._head("GET", Accept="text/event-stream")
        self.reach.send(head, None, _Post(self, None, begun))
        await begun

    async def arrived(self) -> None:
        """Wait until what was sent without awaiting an answer is there."""
        if self._said:
            await asyncio.wait(self._said)

    async def close(self) -> None:
        """Say goodbye, and that as quickly as can be."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PARTING_SECONDS_MAX):
                await self.arrived()
                if self._session is not None:
                    self.reach.send(self._head("DELETE"), None, _Post(self, None, self._note()))
                    await self.arrived()

    def keep(self, head: ReplyHead) -> None:
        """Remember the session that a reply names."""
        self._session = head.get(SESSION) or self._session

    def _note(self) -> "asyncio.Future[None]":
        said: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._said.add(said)
        said.add_done_callback(self._said.discard)
        return said

    def _head(self, verb: str, **fields: str) -> bytes:
        if self._session is not None:
            fields |= {"Mcp_Session_Id": self._session, "MCP_Protocol_Version": REVISION}
        return self.reach.target.head(verb, **fields)


class _Post:
    """Takes the reply to one frame."""

    waits = None

    def __init__(
        self, outside: Outside, on_lost: Lost | None, begun: "asyncio.Future[None] | None"
    ) -> None:
        self.line: Wire | None = None
        self._outside = outside
        self._on_lost = on_lost
        self._begun = begun
        """Somebody waits until the gateway has taken the frame."""
        self._splitter = EventSplitter(codec.OUTBOUND.bytes_max)

    def opened(self, head: ReplyHead) -> None:
        self._outside.keep(head)
        self._begin()

    def portion(self, portion: bytes) -> None:
        for event in self._splitter.feed(portion):
            if not isinstance(event, Event):
                self._lose(CommandFailed(f"{self._target} sent a message that is too long"))
            elif event.data and event.name == "message":  # An empty one only gives its id.
                self._outside.hear(event.data)

    def answered(self, head: ReplyHead, body: bytes) -> None:
        self._outside.keep(head)
        self._begin()
        good = head.status == 200 and head.media_type == "application/json"
        if good or _answers(body):
            self._outside.hear(body)
        else:
            self._lose(refusal(self._target, head, body))

    def closed(self, trouble: Trouble | None) -> None:
        self._lose(CommandFailed(f"{self._target} closed the connection before it had answered"))

    def failed(self, trouble: Trouble) -> None:
        self._begin()
        self._lose(unreachable(self._target, trouble))

    @property
    def _target(self) -> Target:
        return self._outside.reach.target

    def _begin(self) -> None:
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(None)

    def _lose(self, trouble: CommandFailed) -> None:
        if self._on_lost is not None:
            self._on_lost(trouble)


def _answers(body: bytes) -> bool:
    """Whether the body of an error, at whatever status, answers a request by its id."""
    frame = codec.decode(body, codec.OUTBOUND)
    return isinstance(frame, Result | Failure) and frame.id is not None


def outside(reach: Reach) -> Callable[[Hear], Line]:
    """What connects a caller with a gateway that runs elsewhere."""
    return partial(Outside, reach)
