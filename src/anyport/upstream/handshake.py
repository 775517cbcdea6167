"""Finding out which era a stdio server speaks, and opening a conversation in it.

The probe is `server/discover`, which some legacy servers die of: then a fresh process gets
`initialize` and nothing else. A server that is merely slow is not mistaken for a dead one: it
gets `initialize` too, and the first usable answer to either decides.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from anyport.protocol import meta
from anyport.protocol.back import back_for, server_capabilities
from anyport.protocol.errors import UNSUPPORTED_REVISION, error_code
from anyport.protocol.extension import TASKS, declared_extensions
from anyport.protocol.revision import (
    NEWEST_LEGACY,
    NEWEST_MODERN,
    Era,
    Revision,
    find_revision,
)
from anyport.protocol.task import offers_tasks
from anyport.protocol.timeouts import Timeout
from anyport.upstream.asking import awaited
from anyport.upstream.call import Answer, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.peer import Peer
from anyport.wire import members
from anyport.wire.frame import Failure, Result

PROBE_SECONDS_MAX: Final = 2.0
"""How long `server/discover` may go unanswered before `initialize` is sent as well, and then how
long a slow modern server has to say what it made of that."""
START_SECONDS_MAX: Final = 60.0
"""From spawn to ready; package launchers download on their first start."""


class HandshakeFailed(Exception):
    """A server cannot be used; the text says why."""

    def __init__(self, words: str, timeout: Timeout | None = None) -> None:
        super().__init__(words)
        self.timeout = timeout
        """Which time was over, if it is that."""


class Died(HandshakeFailed):
    """The server was gone before it had answered."""


class Misled(HandshakeFailed):
    """A slow server is a modern one, but took the second question for the one that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """How we present ourselves to a server."""

    client_info: bytes
    capabilities: bytes
    """What a legacy server may ask of us, for the whole connection."""
    protocol: str
    """`auto`, `modern`, `legacy` or a revision, as configured."""
    to_be_asked: bool = False
    """Whether a server that keeps no session, and so cannot ask, is of no use."""


async def shake_hands(connection: Connection, introduction: Introduction) -> Peer:
    """Open the conversation; the connection's peer is known afterwards.

    Raises:
        Died: the server went away first.
        Misled: a fresh process has to be asked for the newer era alone.
        HandshakeFailed: it speaks nothing we know, or not in time.
    """
    pinned = find_revision(introduction.protocol)
    try:
        async with asyncio.timeout(START_SECONDS_MAX):
            if introduction.protocol == "legacy" or (pinned and pinned.era is Era.LEGACY):
                answer = await _begin(connection, introduction, pinned or NEWEST_LEGACY)
                peer = _agreed(answer, introduction)
            elif introduction.protocol == "modern" or (pinned and pinned.era is Era.MODERN):
                peer = await _discover(connection, introduction, pinned or NEWEST_MODERN)
            else:
                peer = await _probe(connection, introduction)
    except TimeoutError:
        words = f"it did not answer the handshake within {START_SECONDS_MAX:g} s"
        raise HandshakeFailed(words, Timeout.HANDSHAKE) from None
    connection.peer = peer
    if peer.revision.era is Era.LEGACY:
        connection.notify("notifications/initialized", None)
    return peer


async def _probe(connection: Connection, introduction: Introduction) -> Peer:
    """Modern if it answers as a modern server, else legacy.

    After a silence `initialize` follows on the same pipe. A slow starter answers both in turn, and
    must have refused the second if it is to be modern: some open a session all the same. A server
    that the probe has broken dies of it. Both then get a fresh process.
    """
    discovery = ask(connection, "server/discover", envelope(introduction, NEWEST_MODERN))
    await asyncio.wait({discovery}, timeout=PROBE_SECONDS_MAX)
    handshake: asyncio.Future[Answer] | None = None
    if not discovery.done():
        handshake = _begin(connection, introduction, NEWEST_LEGACY)
        await asyncio.wait({discovery, handshake}, return_when=asyncio.FIRST_COMPLETED)
    if discovery.done():
        answer = discovery.result()
        if isinstance(answer, Lost):
            raise Died(answer.reason)
        peer = _modern_peer(answer, introduction)
        if peer is not None:
            if handshake is not None:
                await _see_refused(handshake)
            return peer
    answer = await (handshake or _begin(connection, introduction, NEWEST_LEGACY))
    discovery.cancel()  # Some never answer it, and would seem to be at work for ever.
    return _agreed(answer, introduction)


async def _see_refused(handshake: "asyncio.Future[Answer]") -> None:
    await asyncio.wait({handshake}, timeout=PROBE_SECONDS_MAX)
    if handshake.done() and isinstance(handshake.result(), Result):
        raise Misled("it speaks the newer era, and opened a session of the older one")


async def _discover(connection: Connection, introduction: Introduction, revision: Revision) -> Peer:
    answer = await ask(connection, "server/discover", envelope(introduction, revision))
    if isinstance(answer, Lost):
        raise Died(answer.reason)
    peer = _modern_peer(answer, introduction)
    if peer is None:
        raise HandshakeFailed(f"it does not speak revision {revision.name}")
    return peer


def _begin(
    connection: Connection, introduction: Introduction, revision: Revision
) -> "asyncio.Future[Answer]":
    """Send `initialize`."""
    return ask(connection, "initialize", opening(introduction, revision))


def opening(introduction: Introduction, revision: Revision) -> bytes:
    """The params of `initialize`."""
    params = {
        "protocolVersion": revision.name,
        "capabilities": msgspec.Raw(introduction.capabilities),
        "clientInfo": msgspec.Raw(introduction.client_info),
    }
    return msgspec.json.encode(params)


def _agreed(answer: Answer, introduction: Introduction) -> Peer:
    """What a server answered to `initialize`."""
    match answer:
        case Lost(reason):
            raise Died(reason)
        case Failure(error=error):
            raise HandshakeFailed(f"it refused the handshake: {error_words(error)}")
        case Result(result=result):
            return legacy_peer(result, introduction)


def legacy_peer(result: bytes, introduction: Introduction) -> Peer:
    """What a server said of itself in its answer to `initialize`.

    Raises:
        HandshakeFailed: nothing that could be used.
    """
    try:
        found = members.members(result)
        version = msgspec.json.decode(found["protocolVersion"], type=str)
    except (msgspec.DecodeError, KeyError):
        raise HandshakeFailed("its answer to initialize has no protocolVersion") from None
    revision = find_revision(version)
    if revision is None or revision.era is not Era.LEGACY:
        raise HandshakeFailed(f"it speaks revision {version!r}, which is not one we know")
    return _peer(revision, found, found.get("serverInfo"), introduction)


def _modern_peer(answer: Result | Failure, introduction: Introduction) -> Peer | None:
    """What a modern server said of itself; None if the answer is not a modern server's."""
    if isinstance(answer, Failure):
        if error_code(answer.error) == UNSUPPORTED_REVISION:
            refuse_strangers(supported_revisions(answer.error))
        return None
    return discovered(answer.result, introduction)


def refuse_strangers(supported: list[str]) -> None:
    """See that a server that refused our newest revision speaks an older one.

    Raises:
        HandshakeFailed: it does not.
    """
    if supported and not any(_is_legacy(name) for name in supported):
        words = f"it speaks only revisions {', '.join(supported)}, none of which we know"
        raise HandshakeFailed(words)


def _is_legacy(name: str) -> bool:
    revision = find_revision(name)
    return revision is not None and revision.era is Era.LEGACY


def discovered(result: bytes, introduction: Introduction) -> Peer | None:
    """What a server said of itself in its answer to `server/discover`; None if it is not modern."""
    try:
        found = members.members(result)
        versions = msgspec.json.decode(found["supportedVersions"], type=list[str])
    except (msgspec.DecodeError, KeyError):
        return None
    if NEWEST_MODERN.name not in versions:
        return None
    about = found.get("_meta")
    identity = server_capabilities(about).get(meta.SERVER_INFO)
    return _peer(NEWEST_MODERN, found, identity, introduction)


def _peer(
    revision: Revision,
    found: Mapping[str, msgspec.Raw],
    identity: msgspec.Raw | None,
    introduction: Introduction,
) -> Peer:
    capabilities = server_capabilities(found.get("capabilities"))
    extensions = declared_extensions(capabilities.get("extensions"), revision.era)
    if revision.tasks and offers_tasks(capabilities.get("tasks")):
        extensions[TASKS] = b"{}"
    return Peer(
        revision=revision,
        back=back_for(revision, introduction.client_info, extensions),
        capabilities=capabilities,
        server_info=b"{}" if identity is None else bytes(identity),
        instructions=members.string(found.get("instructions")),
        extensions=extensions,
    )


def supported_revisions(error: bytes) -> list[str]:
    """What an error says that the server speaks."""
    try:
        told = msgspec.json.decode(error, type=dict[str, object]).get("data")
        versions = told.get("supported") if isinstance(told, dict) else None
    except msgspec.DecodeError:
        return []
    return [str(version) for version in versions] if isinstance(versions, list) else []


def envelope(introduction: Introduction, revision: Revision) -> bytes:
    """The params of `server/discover`."""
    stamped = members.join(
        [
            (meta.PROTOCOL_VERSION, members.text(revision.name)),
            (meta.CLIENT_CAPABILITIES, b"{}"),
            (meta.CLIENT_INFO, introduction.client_info),
        ]
    )
    return members.join([("_meta", stamped)])


def ask(connection: Connection, method: str, params: bytes | None) -> "asyncio.Future[Answer]":
    """A request as a future: a handshake may have two open at a time."""
    answered, settle = awaited(connection, method, params)
    sent = connection.call(method, params, settle)
    if isinstance(sent, Lost):
        settle(sent)
        return answered
    call = sent

    def over(done: "asyncio.Future[Answer]") -> None:
        if done.cancelled():
            connection.cancel(call, None)

    answered.add_done_callback(over)
    return answered


def error_words(error: bytes) -> str:
    """The message of a raw error."""
    return members.string(members.members(error).get("message")) or "no reason given"
