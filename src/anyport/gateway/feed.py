"""What servers say on their own, brought to the clients that asked for it.

List changes, resource updates, logs: each goes to exactly those sessions and listeners that
want it, under the names of their profile.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from anyport.gateway.handles import Handle
from anyport.gateway.parks import Park
from anyport.gateway.profile import Profile
from anyport.protocol import meta
from anyport.protocol.exchange import Caller, Exchange, Failed, Log, Notice, Session
from anyport.protocol.legacy_front import LOG_LEVELS
from anyport.protocol.method import CHANGES, LISTEN_FLAGS, Kind
from anyport.protocol.revision import Era
from anyport.routing.catalog import Catalog
from anyport.routing.route import owner_of_uri
from anyport.routing.uris import qualified
from anyport.upstream.call import Call
from anyport.upstream.key import LeaseKey
from anyport.upstream.server import Server
from anyport.upstream.watch import ACKNOWLEDGED
from anyport.wire import members
from anyport.wire.frame import Notification

EARLY_NOTICES_MAX: Final = 64
"""Of what there is to tell to a client whose listening is not acknowledged yet; the last count."""

DEFAULT_LEVEL: Final = "info"
"""What most servers say who were not told how much to say."""

_NOTHING: Final[set[Kind]] = set()


class Listening:
    """One modern client's open `subscriptions/listen`."""

    __slots__ = ("_early", "exchange", "flags", "tasks", "uris")

    def __init__(
        self,
        exchange: Exchange,
        flags: frozenset[str],
        uris: frozenset[str],
        tasks: tuple[Handle, ...] = (),
    ) -> None:
        self.exchange = exchange
        self.tasks = tasks
        self.flags = flags
        self.uris = uris
        """Public URIs."""
        self._early: tuple[Notice, ...] | None = ()
        """What there was to tell before anything could be; None once it can."""

    def hears(self, server: Server, key: LeaseKey) -> bool:
        """Whether it is told what a server says of resources over this connection."""
        return _tells(server, key) or key.principal == self.exchange.caller.principal

    def acknowledge(self, params: bytes) -> None:
        """Say what is going to be told on this stream; it must be the first thing there."""
        early, self._early = self._early or (), None
        self.tell(ACKNOWLEDGED, params)
        for notice in early:
            self.exchange.happen(notice)

    def tell(self, method: str, params: bytes) -> None:
        """Send one notification on this stream."""
        notice = Notice(method, params)
        if self._early is None:
            self.exchange.happen(notice)
        else:
            self._early = (*self._early, notice)[-EARLY_NOTICES_MAX:]


class Feed:
    """Who wants to be told what."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        open_exchanges: Callable[[Server, Call | None], list[Exchange]],
        away: Callable[[str], Park | None],
    ) -> None:
        self.sessions: dict[str, Session] = {}
        self.listening: dict[Exchange, Listening] = {}
        self._profiles = profiles
        self._open_exchanges = open_exchanges
        self._away = away
        self._shown: dict[str, set[Kind]] = {}

    def opened(self, session: Session) -> None:
        """A legacy session can be told things from now on."""
        self.sessions[session.id] = session

    def closed(self, session: Session) -> None:
        """Nobody is there any more."""
        self.sessions.pop(session.id, None)
        self._shown.pop(session.id, None)

    def shown(self, session: Session | None, kind: Kind) -> None:
        """A session has seen a list: it wants to know when the list changes."""
        if session is not None and session.id in self.sessions:
            self._shown.setdefault(session.id, set()).add(kind)

    def lists_changed(self, profile: Profile, kinds: frozenset[Kind]) -> None:
        """Tell everyone who sees these lists that they changed; one message for each list."""
        told = {CHANGES[kind]: kind for kind in Kind if kind in kinds}
        for method in told:
            affected = {kind for kind in kinds if CHANGES[kind] == method}
            for session in self._sessions_of(profile):
                if affected & self._shown.get(session.id, _NOTHING):
                    session.notify(method, None)
            for listening in self._listening_of(profile):
                if LISTEN_FLAGS[method] in listening.flags:
                    listening.tell(method, b"{}")

    def told(
        self,
        server: Server,
        key: LeaseKey,
        notification: Notification,
        of: Call | None = None,
    ) -> bool:
        """Bring a server's notification to those whom it concerns: `of` one call, if known.

        True if it has become part of a client's exchange.
        """
        params = notification.params if notification.params is not None else b"{}"
        if params[:1] != b"{":
            return False
        match notification.method:
            case "notifications/message":
                return self._log(server, key, params, of)
            case "notifications/resources/updated":
                # On a modern server's stream it bears the id of our own listening.
                self._updated(server, key, meta.restamp(params, {meta.SUBSCRIPTION_ID: None}))
            case _ if notification.method == ACKNOWLEDGED:
                pass  # The answer to our own listening, and nobody else's business.
            case _:
                # Words of a newer revision, or a vendor's: for the one client there can be.
                session = self.sessions.get(key.owner)
                if session is not None:
                    session.notify(notification.method, notification.params)
        return False

    @property
    def followed(self) -> bool:
        """Whether anybody follows any resource; most clients never do."""
        return any(session.subscriptions for session in self.sessions.values()) or any(
            listening.uris for listening in self.listening.values()
        )

    def uris_of(self, server: Server, key: LeaseKey) -> frozenset[str]:
        """The native URIs on this server that someone follows who is told over this connection."""
        owners = [
            owner_of_uri(uri, profile.catalog)
            for profile in self._profiles.values()
            if server.slug in profile.servers
            for uri in self._followed(profile, server, key)
        ]
        return frozenset(
            owner[1] for owner in owners if owner is not None and owner[0] == server.slug
        )

    def tasks_of(self, server: Server) -> frozenset[str]:
        """The tasks of a modern server that somebody listens for, by its own ids."""
        return frozenset(
            handle.native
            for listening in self.listening.values()
            for handle in listening.tasks
            if handle.server is server and handle.era is Era.MODERN and not handle.task.over
        )

    def hears_of(self, handle: Handle) -> bool:
        """Whether anybody listens for a task."""
        return any(handle in listening.tasks for listening in self.listening.values())

    def task_changed(
        self, handle: Handle, words: Callable[[Caller, Profile], bytes | Failed]
    ) -> None:
        """Tell those who listen for a task how it stands, save what they cannot be asked."""
        for listening in list(self.listening.values()):
            caller = listening.exchange.caller
            if handle in listening.tasks and not listening.exchange.ended:
                profile = self._profiles.get(caller.profile)
                told = None if profile is None else words(caller, profile)
                if isinstance(told, bytes):
                    listening.tell("notifications/tasks", told)

    def wanted_level(self, server: Server) -> str | None:
        """The most talkative level that any session of the server's profiles set."""
        levels = [
            session.log_level
            for session in self.sessions.values()
            if session.log_level is not None and server.slug in self._servers_of(session)
        ]
        return min(levels, key=LOG_LEVELS.index, default=None)

    def _followed(self, profile: Profile, server: Server, key: LeaseKey) -> set[str]:
        followed: set[str] = set()
        for session in self._sessions_of(profile):
            if session.subscriptions and _tells(server, key, session.id):
                followed |= session.subscriptions
        for listening in self._listening_of(profile):
            if listening.uris and listening.hears(server, key):
                followed |= listening.uris
        return followed

    def _log(self, server: Server, key: LeaseKey, params: bytes, of: Call | None) -> bool:
        level = members.string(members.members(params).get("level"))
        rank = LOG_LEVELS.index(level) if level in LOG_LEVELS else len(LOG_LEVELS)
        raised = any(line.level for other, line in server.connections() if other == key)
        for exchange in () if of is None else self._open_exchanges(server, of):
            if _wants(exchange.caller, rank, raised=raised):
                own = self._with_logger(exchange.caller.profile, server.slug, params)
                exchange.happen(Log(own, params))
                return True
            return False  # It came with the answer to this one, and is nobody else's.
        belongs = False
        for session in self._hearers(server, key):
            if _wants_in(session, rank, raised=raised):
                own = self._with_logger(session.profile, server.slug, params)
                belongs |= self._log_to_session(session, server, key, Log(own, params))
        return self._log_to_call(server, key, rank, params) or belongs

    def _log_to_session(self, session: Session, server: Server, key: LeaseKey, log: Log) -> bool:
        """Over a session's own connection a log belongs to its call, if only one is open.

        What a server says of its own accord "SHOULD be unrelated to any concurrently-running
        JSON-RPC request" (basic/transports): what is not goes along with that request's answer.
        """
        mine = (e for e in self._open_exchanges(server, None) if e.caller.session is session)
        calls = list(mine) if key.owner else []
        if len(calls) != 1:
            session.notify("notifications/message", log.params)
            return False
        calls[0].happen(log)
        return True

    def _log_to_call(self, server: Server, key: LeaseKey, rank: int, params: bytes) -> bool:
        """A modern client gets a log only with a request that asked, and only if it is that one's.

        So does any client whose call has a connection that is not its session's. A legacy server
        does not say which call a log belongs to, so with several calls open on that connection
        nobody gets it.
        """
        exchanges = [
            e for e in self._open_exchanges(server, None) if owner_of_line(server, e) == key.owner
        ]
        park = None if exchanges else self._away(key.owner)
        if park is not None:
            exchanges = [park.waiting.exchange]
        if len(exchanges) != 1:
            return False
        (exchange,) = exchanges
        caller = exchange.caller
        if caller.session is not None and not exchange.lease:
            return False  # It hears of it as a session.
        if not _wants(caller, rank, raised=True):
            return False
        log = Log(self._with_logger(caller.profile, server.slug, params), params)
        if park is None:
            exchange.happen(log)
        else:
            park.log(log)
        return True

    def _updated(self, server: Server, key: LeaseKey, params: bytes) -> None:
        native = members.string(members.members(params).get("uri"))
        if native is None:
            return
        for profile in self._profiles.values():
            if server.slug not in profile.servers:
                continue
            spelled = partial(_spelled, profile.catalog, server.slug, native)
            for session in self._sessions_of(profile):
                uri = spelled(session.subscriptions)
                if uri is not None and _tells(server, key, session.id):
                    own = _with_uri(params, native, uri)
                    session.notify("notifications/resources/updated", own)
            for listening in self._listening_of(profile):
                uri = spelled(listening.uris)
                if uri is not None and listening.hears(server, key):
                    own = _with_uri(params, native, uri)
                    listening.tell("notifications/resources/updated", own)

    def _hearers(self, server: Server, key: LeaseKey) -> list[Session]:
        if key.owner:
            owner = self.sessions.get(key.owner)
            return [] if owner is None else [owner]
        hearers = [
            session
            for session in self.sessions.values()
            if server.slug in self._servers_of(session)
        ]
        # Whose call it is about is not known, and it is not for other people's eyes.
        people = {session.principal for session in hearers}
        people |= {exchange.caller.principal for exchange in self._open_exchanges(server, None)}
        return hearers if len(people) <= 1 else []

    def _sessions_of(self, profile: Profile) -> list[Session]:
        return [session for session in self.sessions.values() if session.profile == profile.slug]

    def _listening_of(self, profile: Profile) -> list[Listening]:
        return [
            listening
            for listening in self.listening.values()
            if listening.exchange.caller.profile == profile.slug and not listening.exchange.ended
        ]

    def _servers_of(self, session: Session) -> Mapping[str, Server]:
        return self._profiles[session.profile].servers

    def _with_logger(self, profile: str, slug: str, params: bytes) -> bytes:
        """Name the server as the logger; a transparent profile has only one and needs no name."""
        found = self._profiles.get(profile)  # It may be gone, and a call of its not over yet.
        if found is None or found.transparent:
            return params
        logger = members.string(members.members(params).get("logger"))
        name = slug if logger is None else f"{slug}/{logger}"
        return members.edit(params, {"logger": members.text(name)})


def _wants(caller: Caller, rank: int, *, raised: bool) -> bool:
    """Whether a log of this rank is told along with a request of this caller's."""
    if caller.session is not None:
        return _wants_in(caller.session, rank, raised=raised)
    return caller.log_level is not None and rank >= LOG_LEVELS.index(caller.log_level)


def _wants_in(session: Session, rank: int, *, raised: bool) -> bool:
    """Whether a log of this rank is told in a session."""
    # Who wished for nothing is not told what the server says for another's sake.
    wanted = session.log_level or (DEFAULT_LEVEL if raised else None)
    return wanted is None or rank >= LOG_LEVELS.index(wanted)


def owner_of_line(server: Server, exchange: Exchange) -> str:
    """Whose the connection is that an exchange uses; empty for the shared one."""
    session = exchange.caller.session
    own = "" if session is None else server.key_of(session.id).owner
    return exchange.lease or own


def _tells(server: Server, key: LeaseKey, session: str = "") -> bool:
    """Whether it is over this connection that a session, or one who has none, hears of resources.

    Of a legacy server that is the one over which it calls: what its calls change, many servers
    tell nobody else.
    """
    return server.modern or key == server.key_of(session)


def _spelled(
    catalog: Catalog, slug: str, native: str, followed: set[str] | frozenset[str]
) -> str | None:
    """A server's URI as one who follows it, or what it is a part of, knows it; None if nobody."""
    whole: str | None = None
    for uri in followed:
        owner = owner_of_uri(uri, catalog)
        if owner is None or owner[0] != slug:
            continue
        if owner[1] == native:
            return uri
        if native.startswith(owner[1].rstrip("/") + "/"):
            whole = native if uri == owner[1] else qualified(slug, native)
    return whole


def _with_uri(params: bytes, native: str, uri: str) -> bytes:
    return params if uri == native else members.edit(params, {"uri": members.text(uri)})
