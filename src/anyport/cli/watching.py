"""An event stream of a gateway that runs elsewhere, taken as it comes."""

import asyncio

from anyport.cli.ending import CommandFailed
from anyport.cli.reach import refusal, unreachable
from anyport.cli.target import Target
from anyport.upstream.http.line import Line, Trouble
from anyport.wire import codec
from anyport.wire.events import Event, EventSplitter
from anyport.wire.http import ReplyHead


class Watching:
    """A `Taker` of the stream."""

    waits = None

    def __init__(self, target: Target) -> None:
        self.line: Line | None = None
        self._target = target
        self._splitter = EventSplitter(codec.OUTBOUND.bytes_max)
        self._news = asyncio.Event()
        self._waiting: list[Event] = []
        self._is_open = False
        self._ended: CommandFailed | None = None

    async def wait_open(self) -> None:
        """Wait until what happens from now on will come.

        Raises:
            CommandFailed: there is no such stream.
        """
        while not self._is_open:
            await self._hear()

    async def next(self) -> list[Event]:
        """The events that have come since; waits for some.

        Raises:
            CommandFailed: the stream has ended.
        """
        while not self._waiting:
            await self._hear()
        taken, self._waiting = self._waiting, []
        return taken

    async def _hear(self) -> None:
        if self._ended is not None:
            raise self._ended
        self._news.clear()
        await self._news.wait()

    def opened(self, head: ReplyHead) -> None:
        self._is_open = True
        self._news.set()

    def portion(self, portion: bytes) -> None:
        found = self._splitter.feed(portion)
        self._waiting += [event for event in found if isinstance(event, Event)]
        self._news.set()

    def answered(self, head: ReplyHead, body: bytes) -> None:
        self._end(refusal(self._target, head, body))

    def closed(self, trouble: Trouble | None) -> None:
        self._end(CommandFailed(f"the gateway at {self._target.place.origin} has ended the stream"))

    def failed(self, trouble: Trouble) -> None:
        self._end(unreachable(self._target, trouble))

    def _end(self, reason: CommandFailed) -> None:
        self._ended = reason
        self._news.set()
