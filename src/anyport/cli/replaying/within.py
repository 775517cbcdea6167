"""A gateway started for the occasion, asked as a client of one of its profiles."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count

import msgspec

from anyport.cli.caller import Hear, Line
from anyport.cli.ending import CommandFailed
from anyport.cli.inside import inside
from anyport.cli.occasion import POLL_SECONDS, SETTLE_SECONDS_MAX, settled
from anyport.cli.replaying.case import Opening
from anyport.cli.replaying.stand import Answer, Script, prepared
from anyport.cli.setup import Setup
from anyport.gateway.runtime import Gateway
from anyport.protocol.revision import NEWEST_LEGACY, Era, find_revision
from anyport.upstream.call import Lost
from anyport.wire import codec
from anyport.wire.frame import BadFrame, Failure, Request, Result


class Talk:
    """One conversation with a gateway."""

    is_gateway = True

    def __init__(self, connect: Callable[[Hear], Line], opening: Opening) -> None:
        self.greeting: Answer | None = None
        self._opening = opening
        found = None if opening.revision is None else find_revision(opening.revision)
        self._revision = found or NEWEST_LEGACY
        self._numbers = count(1)
        self._waiting: dict[bytes, asyncio.Future[Answer]] = {}
        self._script = Script()
        self._line = connect(self._hear)

    async def open(self) -> None:
        """The handshake, where the revision has one.

        Raises:
            CommandFailed: it was refused.
        """
        if self._revision.era is Era.MODERN:
            return
        opening = self._opening
        hello = {
            "protocolVersion": opening.revision or NEWEST_LEGACY.name,
            "capabilities": msgspec.Raw(opening.capabilities),
            "clientInfo": msgspec.Raw(opening.client_info),
        }
        self.greeting = await self.request("initialize", msgspec.json.encode(hello), Script())
        if not isinstance(self.greeting, Result):
            raise CommandFailed("the gateway refused the handshake that was recorded")
        self.notify("notifications/initialized", None)

    async def request(self, method: str, params: bytes | None, script: Script) -> Answer:
        """Send a request, and answer what is asked meanwhile."""
        self._script = script
        id = b"%d" % next(self._numbers)
        sent = prepared(params, self._revision, self._opening, id)
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answered
        self._line.tell(codec.request(id, method, sent), lambda trouble: self._lose(id, trouble))
        return await answered

    def notify(self, method: str, params: bytes | None) -> None:
        """Send a notification."""
        self._line.tell(codec.notification(method, params))

    async def close(self) -> None:
        """The end of the conversation."""
        await self._line.close()

    def _hear(self, raw: bytes) -> None:
        frame = codec.decode(raw, codec.OUTBOUND)
        match frame:
            case Result() | Failure():
                self._settle(frame.id or b"", frame)
            case Request():
                self._reply(frame)
            case BadFrame(message=message):
                for id in list(self._waiting):
                    self._settle(id, Lost(f"answered with what is no message: {message}"))

    def _reply(self, request: Request) -> None:
        answer = self._script.answer(request)
        # Not from within what it says: it may not be done with saying it.
        if isinstance(answer, Result):
            frame = codec.result(request.id, answer.result)
        else:
            frame = codec.failure(request.id, answer.error)
        asyncio.get_running_loop().call_soon(self._line.tell, frame)

    def _lose(self, id: bytes, trouble: CommandFailed) -> None:
        self._settle(id, Lost(str(trouble)))

    def _settle(self, id: bytes, answer: Answer) -> None:
        waiting = self._waiting.pop(id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)


@asynccontextmanager
async def within(setup: Setup) -> AsyncIterator[Gateway]:
    """A gateway for the time of a block, which tells nobody else what happens in it."""
    config = replace(setup.config, hooks=())
    async with Gateway(config, setup.state_dir, sole=True) as gateway:
        yield gateway


@asynccontextmanager
async def talk(gateway: Gateway, profile: str, opening: Opening) -> AsyncIterator[Talk]:
    """A conversation with it for the time of a block, begun when its servers are there."""
    talking = Talk(inside(gateway, profile), opening)
    try:
        await talking.open()
        # Where there is no session, it is the first request that starts the servers.
        await talking.request("tools/list", None, Script())
        await _wait_settled(gateway, profile)
        yield talking
    finally:
        await talking.close()


async def _wait_settled(gateway: Gateway, profile: str) -> None:
    began = time.monotonic()
    servers = gateway.profiles[profile].servers.values()
    while not all(map(settled, servers)) and time.monotonic() - began < SETTLE_SECONDS_MAX:
        await asyncio.sleep(POLL_SECONDS)
