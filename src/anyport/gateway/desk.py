"""What the gateway answers itself: lists, discovery, log levels, listening, its own tools."""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import msgspec

from anyport.gateway.describe import IDENTITY
from anyport.gateway.feed import Feed, Listening
from anyport.gateway.freshness import of_list, renewing
from anyport.gateway.interest import Interest
from anyport.gateway.profile import Profile, is_awaited
from anyport.gateway.relay import Relay
from anyport.protocol.capability import gateway_capabilities
from anyport.protocol.errors import Fault, invalid_params, tool_error
from anyport.protocol.exchange import Answered, Exchange, Failed
from anyport.protocol.extension import TASKS
from anyport.protocol.freshness import STALE, Freshness, hinted
from anyport.protocol.legacy_front import LOG_LEVELS, Description
from anyport.protocol.method import LISTEN_FLAGS, METHODS, Kind, Travel
from anyport.protocol.modern_front import SUPPORTED, complete
from anyport.protocol.revision import Era
from anyport.protocol.shape import OWN, WHOLE, read_shape
from anyport.routing.catalog import Catalog, FirstPage
from anyport.routing.paging import PAGE_ENTRIES_MAX, page
from anyport.routing.route import Route, owner_of_uri
from anyport.upstream.level import set_level
from anyport.upstream.server import Server
from anyport.wire import members

EMPTY: Final = Answered(b"{}")
_ABOUT_TASKS: Final = tuple(row.name for row in METHODS.values() if row.extension == TASKS)


class BadQuery(ValueError):
    """A question to the journal that cannot be asked; the text says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the desk needs from the gateway."""

    status: Callable[[Profile], dict[str, Any]]
    events: Callable[[bytes, str], Coroutine[Any, Any, tuple[bytes, ...]]]
    """Takes the raw arguments of `get_events` and the trace of the call, gives raw documents, of
    which the first is an array of events. Raises `BadQuery`."""
    describe: Callable[[str], Description]
    spawn: Callable[[Coroutine[Any, Any, None], str], None]
    later: Callable[[float, Callable[[], None]], object]
    cursor_key: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Somebody who waits for servers."""

    over: Callable[[], bool]
    then: Callable[[], None]
    slow: Callable[[], Iterable[Server]] = tuple
    """Those that nobody waits for any more, once this has taken too long."""


class Desk:
    """Answers what no single server can."""

    def __init__(
        self, relay: Relay, feed: Feed, interest: Interest, means: Means, list_seconds: float
    ) -> None:
        self._relay = relay
        self._feed = feed
        self._interest = interest
        self._means = means
        self.list_seconds = list_seconds
        """How long a list waits for servers that are still starting."""
        self._waiting: list[Waiting] = []
        relay.tasks.feed = feed
        self._local: dict[str, Callable[[Exchange, Profile], None]] = {
            "ping": lambda exchange, _: exchange.end(EMPTY),
            "server/discover": self._discover,
            "logging/setLevel": self._set_level,
            "subscriptions/listen": self._listen,
            **dict.fromkeys(_ABOUT_TASKS, relay.tasks.answer),
        }

    def answer(self, exchange: Exchange, profile: Profile) -> None:
        """Answer a request that the gateway answers itself."""
        if exchange.method.travel is Travel.MERGE:
            self.wait_for_lists(profile, partial(self._renew, exchange, profile))
        else:
            self._local[exchange.method.name](exchange, profile)

    def use_tool(self, exchange: Exchange, profile: Profile, tool: str) -> None:
        """Run one of the gateway's own tools."""
        if tool == "gateway_status":
            # With the trace, so that an agent can go on and ask what belongs to its own call.
            report = {**self._means.status(profile), "trace_id": exchange.trace_id}
            result = _text_result(msgspec.json.encode(report))
            self._relay.finish(exchange, "", tool, Answered(result))
        else:
            self._means.spawn(self._get_events(exchange, tool), tool)

    def subscribe(self, exchange: Exchange, server: Server, route: Route) -> None:
        """Start or end a client's interest in a resource."""
        self._interest.take(exchange, server, route)

    def wait_for_lists(self, profile: Profile, then: Callable[[], None]) -> None:
        """Run something once every server has told what it offers, or has had its time."""
        if profile.settled:
            then()
            return

        def slow() -> list[Server]:
            return [server for server in profile.servers.values() if not server.settled]

        self._wait(Waiting(lambda: profile.settled, then, slow), self.list_seconds)

    def wait_for_server(self, server: Server, waited: float, then: Callable[[], None]) -> None:
        """Run something once a server has told what it offers, or cannot, or had its time."""
        seconds = max(0.0, server.config.timeout_seconds - waited)
        self._wait(Waiting(lambda: not is_awaited(server), then), seconds)

    def lists_settled(self) -> None:
        """Some server's lists have come, or never will: serve those who waited for them."""
        ready = [waiting for waiting in self._waiting if waiting.over()]
        self._waiting = [waiting for waiting in self._waiting if waiting not in ready]
        for waiting in ready:
            waiting.then()

    def pass_level(self, server: Server) -> None:
        """Tell a legacy server the most talkative level that anybody wants."""
        level = self._feed.wanted_level(server)
        if level is None:
            return
        for _, connection in server.connections():
            set_level(connection, level)

    def _wait(self, waiting: Waiting, seconds: float) -> None:
        self._waiting.append(waiting)
        self._means.later(seconds, partial(self._give_up, waiting))

    def _give_up(self, waiting: Waiting) -> None:
        if waiting not in self._waiting:
            return
        self._waiting.remove(waiting)
        for server in waiting.slow():
            server.late = True
        waiting.then()
        self.lists_settled()

    def _renew(self, exchange: Exchange, profile: Profile) -> None:
        """Have what is too old to be shown read again first; what cannot be is shown as it is."""
        kind = exchange.method.kind
        if exchange.ended or kind is None:
            return
        servers = renewing(profile, kind)
        then = partial(self._list, exchange, profile, kind)
        if not servers:
            then()
            return

        def slow() -> list[Server]:
            return [server for server in servers if server.lists.is_awaited(kind)]

        self._wait(Waiting(lambda: not slow(), then, slow), self.list_seconds)

    def _list(self, exchange: Exchange, profile: Profile, kind: Kind) -> None:
        if exchange.ended:
            return
        raw = exchange.found.get("cursor")
        cursor = None if raw is None or bytes(raw) == b"null" else bytes(raw)
        caller, catalog = exchange.caller, profile.catalog
        modern = caller.revision.era is Era.MODERN
        freshness = of_list(profile, kind) if modern else STALE
        self._feed.shown(caller.session, kind)
        revision = caller.revision
        key = (kind, revision.era, revision.tasks, caller.capabilities.interactive)
        first = None if cursor is not None else catalog.first_pages.get(key)
        if first is None:
            ending = self._page(exchange, catalog, kind, cursor, freshness)
        elif first.freshness == freshness:
            ending = first.ending
        else:
            result = freshness.restamped(first.ending.result, first.freshness)
            ending = Answered(result, WHOLE)
        if cursor is None and isinstance(ending, Answered):
            catalog.first_pages[key] = FirstPage(ending, freshness)
        exchange.end(ending)

    def _page(
        self,
        exchange: Exchange,
        catalog: Catalog,
        kind: Kind,
        cursor: bytes | None,
        freshness: Freshness,
    ) -> Answered | Failed:
        caller, extras = exchange.caller, catalog.extras(kind)
        askable = caller.capabilities.interactive
        # "Servers MUST apply the same `cacheScope` to all response pages" (utilities/caching):
        # a cursor from before the scope has changed is not ours any more.
        scope = b"public" if freshness.public else b"private"
        outcome = page(
            kind,
            catalog.entries_for(kind, caller.revision, askable=askable),
            cursor,
            size=PAGE_ENTRIES_MAX,
            key=self._means.cursor_key + scope,
            extras=extras,
        )
        if isinstance(outcome, Fault):
            return Failed(outcome)
        if caller.revision.era is Era.MODERN:
            whole = complete(exchange, outcome, IDENTITY, hinted(read_shape(outcome)))
            return Answered(freshness.stamped(whole), WHOLE)
        # What we made ourselves need not be read to know what is in it.
        return Answered(outcome, OWN if extras == b"{}" else None)

    def _discover(self, exchange: Exchange, profile: Profile) -> None:
        description = self._means.describe(profile.slug)
        result: dict[str, object] = {
            "supportedVersions": SUPPORTED,
            "capabilities": gateway_capabilities(exchange.caller.revision, description.extensions),
        }
        if description.instructions is not None:
            result["instructions"] = description.instructions
        exchange.end(Answered(msgspec.json.encode(result)))

    def _set_level(self, exchange: Exchange, profile: Profile) -> None:
        raw = members.members(exchange.params).get("level")
        level = next((name for name in LOG_LEVELS if raw == msgspec.Raw(members.text(name))), None)
        if level is None:
            words = f"Invalid params: level must be one of {', '.join(LOG_LEVELS)}"
            exchange.end(Failed(invalid_params(words)))
            return
        session = exchange.caller.session
        if session is not None:
            session.log_level = level
        for server in profile.servers.values():
            self.pass_level(server)
        exchange.end(EMPTY)

    def _listen(self, exchange: Exchange, profile: Profile) -> None:
        wishes = _wishes(exchange.params)
        if wishes is None:
            words = "Invalid params: subscriptions/listen needs notifications, an object"
            exchange.end(Failed(invalid_params(words)))
            return
        if wishes.get("resourceSubscriptions"):
            # Before its server has told what it has, a resource is nobody's.
            self.wait_for_lists(profile, partial(self._hear, exchange, profile, wishes))
        else:
            self._hear(exchange, profile, wishes)

    def _hear(self, exchange: Exchange, profile: Profile, wishes: dict[str, object]) -> None:
        if exchange.ended:
            return
        flags = tuple(flag for flag in LISTEN_FLAGS.values() if wishes.get(flag) is True)
        asked = wishes.get("resourceSubscriptions")
        uris = [
            uri
            for uri in (asked if isinstance(asked, list) else [])
            if isinstance(uri, str) and owner_of_uri(uri, profile.catalog) is not None
        ]
        tasks = self._relay.tasks.heard_of(exchange, profile, wishes.get("taskIds"))
        if isinstance(tasks, Fault):
            exchange.end(Failed(tasks))
            return
        followed = frozenset(uris) if uris else _shared(())
        listening = Listening(exchange, _shared(flags), followed, tasks)
        self._feed.listening[exchange] = listening
        exchange.on_cancel = partial(self._unlisten, exchange, profile)
        acknowledge = partial(self._acknowledge, listening, profile, wishes)
        if listening.uris or tasks:
            self._interest.sync(profile.servers.values(), acknowledge)
        else:
            acknowledge()

    def _acknowledge(
        self, listening: Listening, profile: Profile, wishes: dict[str, object]
    ) -> None:
        """Say what is going to be told, now that those who will tell it know."""
        if listening.exchange.ended:
            return
        honoured: dict[str, object] = {
            flag: True for flag in LISTEN_FLAGS.values() if flag in listening.flags
        }
        asked = wishes.get("resourceSubscriptions")
        if isinstance(asked, list):
            honoured["resourceSubscriptions"] = [
                uri for uri in asked if uri in listening.uris and self._told_of(uri, profile)
            ]
        if "taskIds" in wishes:
            honoured["taskIds"] = [handle.id for handle in listening.tasks]
        listening.acknowledge(msgspec.json.encode({"notifications": honoured}))

    def _told_of(self, uri: str, profile: Profile) -> bool:
        owner = owner_of_uri(uri, profile.catalog)
        return owner is not None and not self._interest.refused(*owner)

    def _unlisten(self, exchange: Exchange, profile: Profile, reason: bytes | None) -> None:
        listening = self._feed.listening.pop(exchange, None)
        if listening is not None and (listening.uris or listening.tasks):
            self._interest.sync(profile.servers.values())

    async def _get_events(self, exchange: Exchange, tool: str) -> None:
        arguments = members.members(exchange.params).get("arguments", msgspec.Raw(b"{}"))
        try:
            result = _text_result(*await self._means.events(bytes(arguments), exchange.trace_id))
        except BadQuery as error:
            result = tool_error(f"get_events: {error}")
        except Exception as error:  # noqa: BLE001 - the caller waits for an answer
            self._relay.broke(exchange, error)
            return
        self._relay.finish(exchange, "", tool, Answered(result))


@cache
def _shared(flags: tuple[str, ...]) -> frozenset[str]:
    """The same object for all who want the same; there are not many things to want."""
    return frozenset(flags)


def _wishes(params: bytes) -> dict[str, object] | None:
    raw = members.members(params).get("notifications")
    try:
        return None if raw is None else msgspec.json.decode(raw, type=dict[str, object])
    except msgspec.DecodeError:
        return None


def _text_result(*documents: bytes) -> bytes:
    """A tool result with JSON documents as its texts."""
    texts = [b'{"type":"text","text":%b}' % members.text(text.decode()) for text in documents]
    return b'{"content":[%b]}' % b",".join(texts)
