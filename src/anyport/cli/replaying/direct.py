"""A server, asked as the gateway would ask it, with no gateway in between."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from anyport.cli.ending import CommandFailed
from anyport.cli.replaying.case import Opening
from anyport.cli.replaying.stand import Answer, Script, prepared
from anyport.config.schema import ServerConfig
from anyport.gateway.describe import IDENTITY
from anyport.protocol import meta
from anyport.protocol.errors import Situation
from anyport.protocol.headers import Annotations, annotations
from anyport.protocol.revision import find_revision
from anyport.upstream.call import Lost
from anyport.upstream.connection import Connection
from anyport.upstream.environment import child_environment
from anyport.upstream.handshake import HandshakeFailed, Introduction
from anyport.upstream.hearer import Hearer
from anyport.upstream.local import Local
from anyport.upstream.own import Asked, Record
from anyport.upstream.process import Warden
from anyport.upstream.remote import Remote
from anyport.upstream.road import Catalogue, Learned, Road, Surroundings, Traveller
from anyport.wire import members
from anyport.wire.frame import Request, Result


class Direct:
    """One conversation with one server."""

    def __init__(self, config: ServerConfig, opening: Opening) -> None:
        self.greeting: Answer | None = None
        self._config = config
        self._opening = opening
        self._connection: Connection | None = None
        self._script = Script()
        self._schemas: dict[str, bytes] = {}

    @property
    def is_gateway(self) -> bool:
        """Whether it presents itself as we do."""
        if self._connection is None or self._connection.peer is None:
            return False
        name = members.members(self._connection.peer.server_info).get("name")
        return name is not None and name == members.members(IDENTITY).get("name")

    async def open(self, road: Road) -> None:
        """Begin the conversation.

        Raises:
            CommandFailed: the server cannot be asked.
        """
        try:
            self._connection = await road.open()
        except HandshakeFailed as error:
            words = road.shown(str(error))
            noise = "" if road.noise is None else f"; {road.noise}"
            who = f"server '{self._config.slug}'" if self._config.url is None else self._config.url
            raise CommandFailed(f"{who} cannot be asked: {words}{noise}") from None

    async def request(self, method: str, params: bytes | None, script: Script) -> Answer:
        """Send a request, and answer what is asked meanwhile."""
        connection = self._connection
        assert connection is not None and connection.peer is not None, "only asked when it is open"
        self._script = script
        sent = prepared(params, connection.peer.revision, self._opening, b"0")
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def settle(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        reports = sent is not None and meta.PROGRESS_TOKEN.encode() in sent
        call = connection.call(method, sent, settle, _unheard if reports else None)
        if isinstance(call, Lost):
            return call
        seconds = self._config.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                answer = await answered
        except TimeoutError:
            connection.cancel(call, None)
            return Lost(f"did not answer within {seconds:g} s", Situation.TIMED_OUT)
        if method == "tools/list" and isinstance(answer, Result):
            self._learn(answer.result)
        return answer

    def notify(self, method: str, params: bytes | None) -> None:
        """Send a notification."""
        assert self._connection is not None, "only asked when it is open"
        self._connection.notify(method, params)

    def hearer(self, connection: Callable[[], Connection]) -> Hearer:
        """What is done with what the server says on its own."""

        def asked(request: Request) -> None:
            connection().answer(request.id, self._script.answer(request))

        return Hearer(
            on_request=asked,
            on_notification=lambda _: None,
            on_noise=lambda _, __: None,
            on_end=lambda: None,
        )

    def noted(self, asked: Asked, answer: Answer, took: float) -> None:
        """Keep how the handshake was answered."""
        if asked[0] == "initialize":
            self.greeting = answer

    def annotated(self, tool: str) -> Annotations:
        """Which arguments of a tool are repeated in header fields."""
        found = annotations(self._schemas.get(tool, b"{}"))
        return {} if isinstance(found, str) else found

    def _learn(self, result: bytes) -> None:
        for tool in msgspec.json.decode(result).get("tools") or ():
            self._schemas[str(tool.get("name"))] = msgspec.json.encode(tool.get("inputSchema"))


@asynccontextmanager
async def direct(
    config: ServerConfig, opening: Opening, redact: Callable[[str], str]
) -> AsyncIterator[Direct]:
    """A conversation with a server for the time of a block.

    Raises:
        CommandFailed: the server cannot be asked.
    """
    if config.unresolved:
        raise CommandFailed(f"server '{config.slug}' cannot be asked: {config.unresolved[0]}")
    pinned = None if opening.revision is None else find_revision(opening.revision)
    stand = Direct(config, opening)
    warden = Warden()
    introduction = Introduction(
        client_info=opening.client_info,
        capabilities=opening.capabilities,
        protocol=config.protocol if pinned is None else pinned.name,
    )
    world = Surroundings(
        warden=warden,
        environ=child_environment(os.environ, config.env),
        redact=redact,
        clock=time.monotonic,
        chance=lambda: 0.5,
        record=Record(noted=stand.noted),
    )
    traveller = Traveller(
        on_over=lambda connection, reason: connection.end(reason),
        on_renewed=lambda _: None,
        on_stderr=lambda _: None,
        hearer=stand.hearer,
        catalogue=Catalogue(annotations=stand.annotated),
    )
    made = Local if config.url is None else Remote
    road: Road = made(config, introduction, world, traveller, Learned())
    try:
        await stand.open(road)
        yield stand
    finally:
        await road.stop("the replay is over")
        await road.clear()
        await warden.close()


def _unheard(reports: object) -> None:
    """How far a call is does not matter."""
