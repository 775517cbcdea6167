"""Methods that the gateway answers itself: lists, discovery, log levels, listening, own tools."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Final

import msgspec

from anyport.catalog.catalog import FirstPage
from anyport.catalog.paging import PAGE_ENTRIES_MAX, render_page
from anyport.catalog.route import Route, Unroutable, owner_of_uri
from anyport.gateway.calls.leases import capabilities_for_server
from anyport.gateway.identity import server_info_of
from anyport.gateway.local.event_queries import BadQuery
from anyport.gateway.local.gateway_tools import text_result
from anyport.gateway.local.list_freshness import (
    ListSource,
    list_freshness,
    refresh_for_lookup,
    refresh_stale_lists,
)
from anyport.gateway.local.notifications import ListenStream, Notifications
from anyport.gateway.local.resource_subscriptions import ResourceSubscriptions
from anyport.gateway.local.transparent import TransparentMethods, TransparentSubscriptions
from anyport.gateway.profile import Profile, has_pending_lists
from anyport.observe.call_events import record_conflicts
from anyport.protocol.adapters.legacy_client import LOG_LEVELS
from anyport.protocol.adapters.modern_client import SUPPORTED_REVISIONS, complete_result
from anyport.protocol.cache_hints import STALE, Freshness, with_placeholder_hints
from anyport.protocol.capabilities import gateway_capabilities
from anyport.protocol.errors import Fault, invalid_params, tool_error
from anyport.protocol.exchange import Answered, Caller, Exchange, Failed
from anyport.protocol.extensions import TASKS
from anyport.protocol.methods import LISTEN_FLAGS, METHODS, OfferKind, RoutingRule
from anyport.protocol.result import COMPLETE_SHAPE, GATEWAY_SHAPE, read_shape
from anyport.protocol.revisions import Era
from anyport.upstream.server import Server
from anyport.upstream.subscriptions import set_log_level
from anyport.wire import raw_json

if TYPE_CHECKING:
    from anyport.gateway.gateway import Gateway
    from anyport.gateway.relay import Relay

LOOKUPS_WAITING_MAX: Final = 256
"""Requests for unlisted names that may wait while lists are read again."""

EMPTY_RESULT: Final = Answered(b"{}")
_TASK_METHODS: Final = tuple(row.name for row in METHODS.values() if row.extension == TASKS)


class ListWaiter:
    """A request that waits until some lists are known."""

    def __init__(
        self,
        pending: Callable[[], Sequence[ListSource]],
        then: Callable[[], None],
        *,
        marks_overdue: bool = True,
    ) -> None:
        self.pending = pending
        """Returns the lists that are still awaited."""
        self.then = then
        self.marks_overdue = marks_overdue
        """Whether later requests stop waiting for lists that this one has given up on."""


class LocalMethods:
    """Answers requests that are not for a single server."""

    def __init__(
        self,
        gateway: "Gateway",
        relay: "Relay",
        notifications: Notifications,
        resource_subscriptions: ResourceSubscriptions,
    ) -> None:
        self._gateway = gateway
        self._clock = gateway.clock
        self._relay = relay
        self._notifications = notifications
        self._resource_subscriptions = resource_subscriptions
        self._cursor_key = gateway.clock.random_bytes(16)
        self.list_seconds = gateway.config.gateway.list_seconds
        """How long a list waits for servers that are still starting."""
        self._waiters: dict[ListWaiter, None] = {}
        self._lookup_count = 0
        """Requests that wait for a lookup of something that is in no list."""
        self.transparent_subscriptions = TransparentSubscriptions(
            relay.answer_translator, gateway.clock
        )
        self._transparent = TransparentMethods(
            relay, self.transparent_subscriptions, gateway.clock, self._answer_locally
        )
        self._methods: dict[str, Callable[[Exchange, Profile], None]] = {
            "ping": lambda exchange, _: exchange.end(EMPTY_RESULT),
            "server/discover": self._discover,
            "logging/setLevel": self._set_level,
            "subscriptions/listen": self._listen,
            **dict.fromkeys(_TASK_METHODS, relay.tasks.answer),
        }

    def answer(self, exchange: Exchange, profile: Profile) -> None:
        if profile.config.transparent and self._transparent.is_for_server(exchange):
            self._transparent.answer(exchange, profile)
        else:
            self._answer_locally(exchange, profile)

    def _answer_locally(self, exchange: Exchange, profile: Profile) -> None:
        if exchange.method.routing is RoutingRule.MERGE:
            self.query_more_lists(exchange.caller, profile)
            self.wait_for_lists(profile, partial(self._refresh_stale_lists, exchange, profile))
        else:
            self._methods[exchange.method.name](exchange, profile)

    def query_more_lists(self, caller: Caller, profile: Profile) -> None:
        """Read the lists that servers show only to clients that can answer questions."""
        if not caller.capabilities.interactive:
            return
        questions, declared = caller.capabilities.questions, b""
        for server in profile.servers.values():
            if server.lacks_interactive_lists(questions):
                declared = declared or capabilities_for_server(caller)
                server.read_interactive_lists(questions, declared)

    def run_gateway_tool(self, exchange: Exchange, profile: Profile, tool: str) -> None:
        if tool == "gateway_status":
            # With the trace id, so that an agent can look up the events of its own call.
            report = {**self._gateway.status(profile), "trace_id": exchange.trace_id}
            result = text_result(msgspec.json.encode(report))
            self._relay.finish(exchange, Answered(result))
        else:
            self._clock.spawn(self._get_events(exchange, tool), tool)

    def subscribe(self, exchange: Exchange, server: Server, route: Route) -> None:
        """Handle `resources/subscribe` or `resources/unsubscribe`."""
        self._resource_subscriptions.handle_request(exchange, server, route)

    def wait_for_lists(self, profile: Profile, then: Callable[[], None]) -> None:
        """Call `then` once all lists of the profile are known, or after `list_seconds`."""

        def settle() -> None:
            if profile.outdated:
                self.refresh(profile)
            then()

        if profile.settled:
            settle()
            return

        def pending() -> list[Server]:
            return [server for server in profile.servers.values() if not server.lists_settled]

        self._add_waiter(ListWaiter(pending, settle), self.list_seconds)

    def wait_for_server(self, server: Server, waited: float, then: Callable[[], None]) -> None:
        """Call `then` once a server has listed its offers or failed, or at its timeout."""
        seconds = max(0.0, server.config.timeout_seconds - waited)

        def pending() -> list[Server]:
            return [server] if has_pending_lists(server) else []

        self._add_waiter(ListWaiter(pending, then, marks_overdue=False), seconds)

    def look_up(
        self, profile: Profile, sought: Unroutable, caller: Caller, then: Callable[[], None]
    ) -> bool:
        """Read the lists again in which a missing name may have appeared, then call `then`.

        Returns False if no server may have it, or too many requests wait already.
        """
        if self._lookup_count >= LOOKUPS_WAITING_MAX:
            return False
        # Agents call tools that a server has only just added, before the change was announced.
        lookups = refresh_for_lookup(profile, sought, caller)

        def pending() -> list[ListSource]:
            return [source for source, number in lookups if source.lists.lookups_done < number]

        def on_lookup_done() -> None:
            self._lookup_count -= 1
            then()

        if lookups:
            self._lookup_count += 1
            self._add_waiter(ListWaiter(pending, on_lookup_done), self.list_seconds)
        return bool(lookups)

    def refresh(self, profile: Profile) -> None:
        """Rebuild a profile's catalog, and notify clients that see a difference."""
        before, had_variants = profile.catalog, profile.has_variants
        visible = profile.refresh()
        record_conflicts(profile.slug, profile.take_conflicts(), self._gateway.note)
        if visible or had_variants or profile.has_variants:
            self._notifications.notify_lists_changed(profile, visible, before)

    def refresh_variants(self, profile: Profile) -> None:
        """Rebuild the catalogs of single connections, and notify the clients that they serve."""
        profile.refresh_variants()
        self._notifications.notify_lists_changed(profile, frozenset())

    def on_lists_settled(self) -> None:
        """Some lists are known now, or never will be: continue requests that wait for them."""
        # Remove them all first: what continues may wait for something else.
        ready = [waiter for waiter in self._waiters if not waiter.pending()]
        for waiter in ready:
            del self._waiters[waiter]
        for waiter in ready:
            waiter.then()

    def forward_log_level(self, server: Server) -> None:
        """Set the level of a legacy server to the most verbose one that a session wants."""
        level = self._notifications.wanted_log_level(server)
        if level is None:
            return
        for _, connection in server.connections():
            set_log_level(connection, level)

    def _add_waiter(self, waiter: ListWaiter, seconds: float) -> None:
        self._waiters[waiter] = None
        self._clock.later(seconds, partial(self._give_up, waiter))

    def _give_up(self, waiter: ListWaiter) -> None:
        if waiter not in self._waiters:
            return
        del self._waiters[waiter]
        # One slow server delays one request by the whole time, not every request after it.
        for source in waiter.pending() if waiter.marks_overdue else ():
            source.lists_overdue = True
        waiter.then()
        self.on_lists_settled()

    def _refresh_stale_lists(self, exchange: Exchange, profile: Profile) -> None:
        """Read stale lists again, then answer; lists that cannot be read are shown as they are."""
        kind, session = exchange.method.kind, exchange.caller.session
        if exchange.ended or kind is None:
            return
        is_newcomer = session is not None and not self._notifications.has_shown(session, kind)
        sources = refresh_stale_lists(profile, kind, exchange.caller, newcomer=is_newcomer)
        then = partial(self._list, exchange, profile, kind)
        if not sources:
            then()
            return

        def pending() -> list[ListSource]:
            return [source for source in sources if source.lists.is_awaited(kind)]

        self._add_waiter(ListWaiter(pending, then), self.list_seconds)

    def _list(self, exchange: Exchange, profile: Profile, kind: OfferKind) -> None:
        if exchange.ended:
            return
        raw = exchange.param_members.get("cursor")
        cursor = None if raw is None or bytes(raw) == b"null" else bytes(raw)
        caller = exchange.caller
        catalog = profile.catalog_of(caller)
        modern = caller.revision.era is Era.MODERN
        freshness = list_freshness(profile, kind, caller) if modern else STALE
        self._notifications.mark_shown(
            caller.session, kind, None if catalog is profile.catalog else catalog
        )
        revision = caller.revision
        # First pages are cached by what they depend on: most clients ask for nothing else.
        client = revision.era, revision.tasks, revision.structured
        key = (kind, *client, caller.capabilities.interactive)
        first = None if cursor is not None else catalog.first_pages.get(key)
        if first is None:
            ending = self._page(exchange, profile, kind, cursor, freshness)
        elif first.freshness == freshness:
            ending = first.ending
        else:
            result = freshness.restamp(first.ending.result, first.freshness)
            ending = Answered(result, COMPLETE_SHAPE)
        if cursor is None and isinstance(ending, Answered):
            catalog.first_pages[key] = FirstPage(ending, freshness)
        exchange.end(ending)

    def _page(
        self,
        exchange: Exchange,
        profile: Profile,
        kind: OfferKind,
        cursor: bytes | None,
        freshness: Freshness,
    ) -> Answered | Failed:
        caller = exchange.caller
        catalog = profile.catalog_of(caller)
        extras = catalog.extras(kind)
        is_askable = caller.capabilities.interactive
        # "Servers MUST apply the same `cacheScope` to all response pages" (utilities/caching): the
        # scope is part of the key, so a cursor from before it changed is rejected.
        scope = b"public" if freshness.public else b"private"
        outcome = render_page(
            kind,
            catalog.entries_for(kind, caller.revision, askable=is_askable),
            cursor,
            size=PAGE_ENTRIES_MAX,
            key=self._cursor_key + scope,
            extras=extras,
        )
        if isinstance(outcome, Fault):
            return Failed(outcome)
        if caller.revision.era is Era.MODERN:
            completed = complete_result(
                exchange,
                outcome,
                server_info_of(profile),
                with_placeholder_hints(read_shape(outcome)),
            )
            return Answered(freshness.stamp(completed), COMPLETE_SHAPE)
        # A page without extras has a known shape, and need not be parsed to find out.
        return Answered(outcome, GATEWAY_SHAPE if extras == b"{}" else None)

    def _discover(self, exchange: Exchange, profile: Profile) -> None:
        description = self._gateway.describe(profile.slug)
        if description is None:
            raise RuntimeError("a transparent profile is introduced by its server")
        capabilities = gateway_capabilities(
            exchange.caller.revision, description.offered, description.extensions
        )
        result: dict[str, object] = {
            "supportedVersions": SUPPORTED_REVISIONS,
            "capabilities": capabilities,
        }
        if description.instructions is not None:
            result["instructions"] = description.instructions
        exchange.end(Answered(msgspec.json.encode(result)))

    def _set_level(self, exchange: Exchange, profile: Profile) -> None:
        raw = raw_json.members(exchange.params).get("level")
        level = next(
            (name for name in LOG_LEVELS if raw == msgspec.Raw(raw_json.encode_string(name))), None
        )
        if level is None:
            message = f"Invalid params: level must be one of {', '.join(LOG_LEVELS)}"
            exchange.end(Failed(invalid_params(message)))
            return
        session = exchange.caller.session
        if session is not None:
            session.log_level = level
        for server in profile.servers.values():
            self.forward_log_level(server)
        exchange.end(EMPTY_RESULT)

    def _listen(self, exchange: Exchange, profile: Profile) -> None:
        listen_filter = _listen_filter(exchange.params)
        if listen_filter is None:
            message = "Invalid params: subscriptions/listen needs notifications, an object"
            exchange.end(Failed(invalid_params(message)))
            return
        if listen_filter.get("resourceSubscriptions"):
            # Until its server has listed its resources, a URI cannot be routed.
            self.wait_for_lists(
                profile, partial(self._open_listen, exchange, profile, listen_filter)
            )
        else:
            self._open_listen(exchange, profile, listen_filter)

    def _open_listen(
        self, exchange: Exchange, profile: Profile, listen_filter: dict[str, object]
    ) -> None:
        if exchange.ended:
            return
        catalog = profile.catalog_of(exchange.caller)
        flags = tuple(flag for flag in LISTEN_FLAGS.values() if listen_filter.get(flag) is True)
        wanted_uris = listen_filter.get("resourceSubscriptions")
        uris = [
            uri
            for uri in (wanted_uris if isinstance(wanted_uris, list) else [])
            if isinstance(uri, str) and owner_of_uri(uri, catalog) is not None
        ]
        tasks = self._relay.tasks.find_listenable(exchange, profile, listen_filter.get("taskIds"))
        if isinstance(tasks, Fault):
            exchange.end(Failed(tasks))
            return
        subscribed_uris = frozenset(uris) if uris else _interned_flags(())
        stream = ListenStream(exchange, _interned_flags(flags), subscribed_uris, tasks)
        stream.own_catalog = None if catalog is profile.catalog else catalog
        self._notifications.streams[exchange] = stream
        exchange.on_cancel = partial(self._close_listen, exchange, profile)
        # The acknowledgement says what will be notified, which the servers have to confirm first.
        acknowledge = partial(self._acknowledge, stream, profile, listen_filter)
        if stream.uris or tasks:
            self._resource_subscriptions.sync(profile.servers.values(), acknowledge)
        else:
            acknowledge()

    def _acknowledge(
        self, stream: ListenStream, profile: Profile, listen_filter: dict[str, object]
    ) -> None:
        """Acknowledge a subscription with the part of its filter that is honoured."""
        if stream.exchange.ended:
            return
        honoured: dict[str, object] = {
            flag: True for flag in LISTEN_FLAGS.values() if flag in stream.flags
        }
        wanted_uris = listen_filter.get("resourceSubscriptions")
        if isinstance(wanted_uris, list):
            honoured["resourceSubscriptions"] = [
                uri
                for uri in wanted_uris
                if uri in stream.uris and self._is_notified(uri, profile, stream)
            ]
        if "taskIds" in listen_filter:
            honoured["taskIds"] = [handle.id for handle in stream.tasks]
        stream.acknowledge(msgspec.json.encode({"notifications": honoured}))

    def _is_notified(self, uri: str, profile: Profile, stream: ListenStream) -> bool:
        owner = owner_of_uri(uri, profile.catalog_of(stream.exchange.caller))
        if owner is None:
            return False
        slug, native = owner
        server = profile.servers[slug]
        key = server.key_of("", stream.exchange.caller.principal)
        return not self._resource_subscriptions.is_rejected(server, key, native)

    def _close_listen(self, exchange: Exchange, profile: Profile, reason: bytes | None) -> None:
        stream = self._notifications.streams.pop(exchange, None)
        if stream is not None and (stream.uris or stream.tasks):
            self._resource_subscriptions.sync(profile.servers.values())

    async def _get_events(self, exchange: Exchange, tool: str) -> None:
        arguments = raw_json.members(exchange.params).get("arguments", msgspec.Raw(b"{}"))
        try:
            result = await self._gateway.events.query(bytes(arguments), exchange.trace_id)
        except BadQuery as error:
            result = tool_error(f"get_events: {error}")
        except Exception as error:  # noqa: BLE001 - the caller waits for an answer
            self._relay.on_internal_error(exchange, error)
            return
        self._relay.finish(exchange, Answered(result))


@cache
def _interned_flags(flags: tuple[str, ...]) -> frozenset[str]:
    """One object per combination of flags: thousands of streams share a few of them."""
    return frozenset(flags)


def _listen_filter(params: bytes) -> dict[str, object] | None:
    raw = raw_json.members(params).get("notifications")
    try:
        return None if raw is None else msgspec.json.decode(raw, type=dict[str, object])
    except msgspec.DecodeError:
        return None
