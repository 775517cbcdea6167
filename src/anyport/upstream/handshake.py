"""Handshakes with stdio servers: which era a server speaks, and opening a session in it.

The probe is `server/discover`. Some legacy servers crash on it: a fresh process then gets
`initialize` alone. A server that is merely slow gets `initialize` too, and the first usable answer
to either decides.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from anyport.protocol import meta
from anyport.protocol.adapters.server import server_adapter_for, server_capabilities
from anyport.protocol.capabilities import client_capabilities
from anyport.protocol.errors import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_REVISION,
    Timeout,
    error_code,
)
from anyport.protocol.extensions import TASKS, declared_extensions
from anyport.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN, Era, Revision, find_revision
from anyport.protocol.tasks import supports_tasks
from anyport.upstream.connection import Connection, answer_future
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.wire import raw_json
from anyport.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Failure, Result

PROBE_SECONDS_MAX: Final = 2.0
"""How long `server/discover` may go unanswered before `initialize` is sent as well, and then how
long a slow modern server has to refuse that, and a slow legacy one to exit because of the probe."""
SILENCE_SECONDS_MAX: Final = 10.0
"""How long `initialize` may go unanswered before `server/discover` is sent as well. Modern servers
refuse it at once, so a silent server is most likely still starting."""
START_SECONDS_MAX: Final = 60.0
"""From spawn to ready; package launchers download on their first start."""


class HandshakeFailed(Exception):
    """A server cannot be used; the text says why."""

    def __init__(self, reason: str, timeout: Timeout | None = None) -> None:
        super().__init__(reason)
        self.timeout = timeout
        """The timeout that has expired, if that is the reason."""


class ServerDied(HandshakeFailed):
    """The server exited before it had answered."""


class DiedOfProbe(ServerDied):
    """The server had opened a session, and exited when it read `server/discover`."""


class EraNotSupported(HandshakeFailed):
    """The server has said that it does not speak this era: retrying is of no use."""


class NoSession(HandshakeFailed):
    """The server keeps no session in this era, in which it could ask its client."""


class AmbiguousEra(HandshakeFailed):
    """A slow modern server has opened a legacy session as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeOptions:
    """How the gateway introduces itself to a server."""

    client_info: bytes
    capabilities: bytes
    """What a legacy server may ask for, for the whole connection."""
    protocol: str
    """`auto`, `modern`, `legacy` or a revision, as configured."""
    first_era: Era = Era.MODERN
    """The era to try first with `auto`: that of the client the connection is for."""
    revision: str = ""
    """The legacy revision of the client of a transparent profile; else the newest is requested."""
    is_transparent: Callable[[str], bool] = lambda _: False
    """Whether a profile is transparent: its clients introduce themselves."""
    passes_unknown_extensions: Callable[[str], bool] = lambda _: False
    """Whether a profile passes extensions that the gateway does not know."""
    trial: bool = False
    """Whether the server is known to be modern, and the handshake is for a session in which it can
    ask."""
    seconds_max: float | None = None
    """How long the handshake may take, if that is less than usual."""

    @property
    def asks(self) -> bool:
        """Whether the server may ask the client, and so is better used in an era in which it can.
        The client of a transparent profile has chosen its era itself."""
        declared = client_capabilities(self.capabilities)
        return declared is not None and declared.interactive and not self.revision

    @property
    def initialize_revision(self) -> Revision:
        """The revision to request where none is configured."""
        return find_revision(self.revision) or NEWEST_LEGACY


async def perform_handshake(connection: Connection, options: HandshakeOptions) -> Peer:
    """Find out the era and open a session; sets `connection.peer`.

    Raises:
        ServerDied: the server exited first.
        AmbiguousEra: a fresh process has to be probed for the modern era alone.
        HandshakeFailed: it speaks no known revision, or did not answer in time.
    """
    pinned = find_revision(options.protocol)
    seconds_max = options.seconds_max or START_SECONDS_MAX
    try:
        async with asyncio.timeout(seconds_max):
            if options.protocol == "legacy" or (pinned and pinned.era is Era.LEGACY):
                answer = await _send_initialize(
                    connection, options, pinned or options.initialize_revision
                )
                peer = _peer_from_initialize(answer, options)
            elif options.protocol == "modern" or (pinned and pinned.era is Era.MODERN):
                peer = await _discover(connection, options, pinned or NEWEST_MODERN)
            else:
                open_peer = (
                    _discover_first if options.first_era is Era.MODERN else _initialize_first
                )
                peer = await open_peer(connection, options)
    except TimeoutError:
        reason = f"it did not answer the handshake within {seconds_max:g} s"
        raise HandshakeFailed(reason, Timeout.HANDSHAKE) from None
    connection.peer = peer
    if peer.revision.era is Era.LEGACY:
        connection.notify("notifications/initialized", None)
    return peer


async def _discover_first(connection: Connection, options: HandshakeOptions) -> Peer:
    """Modern if it answers `server/discover` as a modern server, else legacy.

    After a silence `initialize` follows on the same pipe. A slow starter then answers both in turn.
    It counts as modern only if it refuses `initialize`, because some servers open a session all the
    same. A server that the probe has broken exits. Both cases need a fresh process.
    """
    discovery = start_request(
        connection, "server/discover", discover_params(options, NEWEST_MODERN)
    )
    await asyncio.wait({discovery}, timeout=PROBE_SECONDS_MAX)
    handshake: asyncio.Future[Answer] | None = None
    if not discovery.done():
        handshake = _send_initialize(connection, options, options.initialize_revision)
        await asyncio.wait({discovery, handshake}, return_when=asyncio.FIRST_COMPLETED)
    if discovery.done():
        answer = discovery.result()
        if isinstance(answer, NoAnswer):
            raise ServerDied(answer.reason)
        peer = _modern_peer(answer, options)
        if peer is not None:
            if handshake is not None:
                await _expect_refusal(handshake)
            return peer
    answer = await (handshake or _send_initialize(connection, options, options.initialize_revision))
    discovery.cancel()  # Some servers never answer it, and would seem to be busy for ever.
    return _peer_from_initialize(answer, options)


async def _initialize_first(connection: Connection, options: HandshakeOptions) -> Peer:
    """Legacy if it opens a session, else modern: for a client that would send `initialize`.

    After a silence `server/discover` follows on the same pipe. A server that answers both has seen
    `initialize` first, and is legacy. One that exits because of the second needs a fresh process.
    """
    handshake = _send_initialize(connection, options, options.initialize_revision)
    await asyncio.wait({handshake}, timeout=SILENCE_SECONDS_MAX)
    discovery: asyncio.Future[Answer] | None = None
    if not handshake.done():
        discovery = start_request(
            connection, "server/discover", discover_params(options, NEWEST_MODERN)
        )
        await asyncio.wait({discovery, handshake}, return_when=asyncio.FIRST_COMPLETED)
        if not handshake.done():
            peer = _peer_from_discovery(discovery.result(), options)
            await asyncio.wait({handshake}, timeout=None if peer is None else PROBE_SECONDS_MAX)
            if peer is not None and not handshake.done():
                handshake.cancel()
                return peer
    answer = handshake.result()
    if isinstance(answer, Failure):
        discovery = discovery or start_request(
            connection, "server/discover", discover_params(options, NEWEST_MODERN)
        )
        peer = _peer_from_discovery(await discovery, options)
        if peer is not None:
            return peer
    elif discovery is not None:
        await asyncio.wait({discovery}, timeout=PROBE_SECONDS_MAX)
        if isinstance(answer, Result) and connection.closed_with is not None:
            raise DiedOfProbe(connection.closed_with.reason)
        discovery.cancel()  # Some servers never answer it, and would seem to be busy for ever.
    return _peer_from_initialize(answer, options)


def _peer_from_discovery(answer: Answer, options: HandshakeOptions) -> Peer | None:
    if isinstance(answer, NoAnswer):
        raise ServerDied(answer.reason)
    return _modern_peer(answer, options)


async def _expect_refusal(handshake: "asyncio.Future[Answer]") -> None:
    await asyncio.wait({handshake}, timeout=PROBE_SECONDS_MAX)
    if handshake.done() and isinstance(handshake.result(), Result):
        raise AmbiguousEra("it speaks the newer era, and opened a session of the older one")


async def _discover(connection: Connection, options: HandshakeOptions, revision: Revision) -> Peer:
    answer = await start_request(connection, "server/discover", discover_params(options, revision))
    if isinstance(answer, NoAnswer):
        raise ServerDied(answer.reason)
    peer = _modern_peer(answer, options)
    if peer is None:
        raise HandshakeFailed(f"it does not speak revision {revision.name}")
    return peer


def _send_initialize(
    connection: Connection, options: HandshakeOptions, revision: Revision
) -> "asyncio.Future[Answer]":
    return start_request(connection, "initialize", initialize_params(options, revision))


def initialize_params(options: HandshakeOptions, revision: Revision) -> bytes:
    params = {
        "protocolVersion": revision.name,
        "capabilities": msgspec.Raw(options.capabilities),
        "clientInfo": msgspec.Raw(options.client_info),
    }
    return msgspec.json.encode(params)


def _peer_from_initialize(answer: Answer, options: HandshakeOptions) -> Peer:
    match answer:
        case NoAnswer(reason):
            raise ServerDied(reason)
        case Failure(error=error):
            raise initialize_error(error)
        case Result(result=result):
            return legacy_peer(result, options)


def initialize_error(error: bytes) -> HandshakeFailed:
    """The reason for an error in answer to `initialize`."""
    reason = f"it refused the handshake: {error_message(error)}"
    return EraNotSupported(reason) if _has_no_handshake(error) else HandshakeFailed(reason)


def _has_no_handshake(error: bytes) -> bool:
    """Whether a server never accepts `initialize`, whichever client it comes from.

    A missing capability says nothing: another client may declare it.
    """
    code = error_code(error)
    if code == UNSUPPORTED_REVISION:
        return not any(_is_legacy(name) for name in supported_revisions(error))
    return code == METHOD_NOT_FOUND or (code != MISSING_CAPABILITY and is_modern_error(error))


def is_modern_error(error: bytes) -> bool:
    """Whether only a modern server sends such an error."""
    code = error_code(error)
    if code in (HEADER_MISMATCH, MISSING_CAPABILITY):
        return True
    # Only a modern server complains about missing members of `_meta`.
    return code == INVALID_PARAMS and meta.PREFIX in error_message(error)


def legacy_peer(result: bytes, options: HandshakeOptions) -> Peer:
    """The peer, from the result of `initialize`.

    Raises:
        HandshakeFailed: the result cannot be used.
    """
    try:
        fields = raw_json.members(result)
        version = msgspec.json.decode(fields["protocolVersion"], type=str)
    except (msgspec.DecodeError, KeyError):
        raise HandshakeFailed("its answer to initialize has no protocolVersion") from None
    revision = find_revision(version)
    if revision is None or revision.era is not Era.LEGACY:
        raise HandshakeFailed(f"it speaks revision {version!r}, which is not one we know")
    peer = _peer(revision, fields, fields.get("serverInfo"), options)
    return replace(peer, handshake_result=result)


def _modern_peer(answer: Result | Failure, options: HandshakeOptions) -> Peer | None:
    """The peer, from the answer to `server/discover`; None if it is not that of a modern server."""
    if isinstance(answer, Failure):
        if error_code(answer.error) == UNSUPPORTED_REVISION:
            require_known_revision(supported_revisions(answer.error))
        return None
    return read_discovery(answer.result, options)


def require_known_revision(supported: list[str]) -> None:
    """Check that a server that refused our newest revision speaks a legacy one.

    Raises:
        HandshakeFailed: it does not.
    """
    if supported and not any(_is_legacy(name) for name in supported):
        reason = f"it speaks only revisions {', '.join(supported)}, none of which we know"
        raise HandshakeFailed(reason)


def _is_legacy(name: str) -> bool:
    revision = find_revision(name)
    return revision is not None and revision.era is Era.LEGACY


def read_discovery(result: bytes, options: HandshakeOptions) -> Peer | None:
    """The peer, from the result of `server/discover`; None if it is not that of a modern server."""
    try:
        fields = raw_json.members(result)
        versions = msgspec.json.decode(fields["supportedVersions"], type=list[str])
    except (msgspec.DecodeError, KeyError):
        return None
    if NEWEST_MODERN.name not in versions:
        return None
    result_meta = fields.get("_meta")
    identity = server_capabilities(result_meta).get(meta.SERVER_INFO)
    return _peer(NEWEST_MODERN, fields, identity, options)


def _peer(
    revision: Revision,
    fields: Mapping[str, msgspec.Raw],
    identity: msgspec.Raw | None,
    options: HandshakeOptions,
) -> Peer:
    capabilities = server_capabilities(fields.get("capabilities"))
    declared = capabilities.get("extensions")
    extensions = declared_extensions(declared, revision.era, unknown=True)
    if revision.tasks and supports_tasks(capabilities.get("tasks")):
        extensions[TASKS] = b"{}"
    return Peer(
        revision=revision,
        adapter=server_adapter_for(
            revision,
            options.client_info,
            extensions,
            options.is_transparent,
            options.passes_unknown_extensions,
        ),
        capabilities=capabilities,
        server_info=b"{}" if identity is None else bytes(identity),
        instructions=raw_json.decode_string(fields.get("instructions")),
        extensions=extensions,
    )


def supported_revisions(error: bytes) -> list[str]:
    """The revisions that an error says the server speaks."""
    try:
        error_data = msgspec.json.decode(error, type=dict[str, object]).get("data")
        versions = error_data.get("supported") if isinstance(error_data, dict) else None
    except msgspec.DecodeError:
        return []
    return [str(version) for version in versions] if isinstance(versions, list) else []


def discover_params(options: HandshakeOptions, revision: Revision) -> bytes:
    stamped = raw_json.encode_object(
        [
            (meta.PROTOCOL_VERSION, raw_json.encode_string(revision.name)),
            (meta.CLIENT_CAPABILITIES, b"{}"),
            (meta.CLIENT_INFO, options.client_info),
        ]
    )
    return raw_json.encode_object([("_meta", stamped)])


def start_request(
    connection: Connection, method: str, params: bytes | None
) -> "asyncio.Future[Answer]":
    """Send a request, and return its answer as a future: a handshake may have two open at a
    time."""
    future, settle = answer_future(connection, method, params)
    sent = connection.call(method, params, settle)
    if isinstance(sent, NoAnswer):
        settle(sent)
        return future
    call = sent

    def on_done(done: "asyncio.Future[Answer]") -> None:
        if done.cancelled():
            connection.cancel(call, None)

    future.add_done_callback(on_done)
    return future


def error_message(error: bytes) -> str:
    """The message of a raw error."""
    return raw_json.decode_string(raw_json.members(error).get("message")) or "no reason given"
