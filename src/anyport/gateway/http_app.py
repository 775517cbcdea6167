"""The gateway over HTTP: puts the ingress together and keeps it in line with the configuration."""

import asyncio
import os
import time
from functools import partial

from anyport.config.model import Config, GatewayConfig, UnknownProfile
from anyport.gateway.api.router import ApiRouter
from anyport.gateway.gateway import Gateway
from anyport.gateway.profile import has_pending_lists
from anyport.ingress.http.access import AccessControl
from anyport.ingress.http.endpoint import Endpoint
from anyport.ingress.http.legacy_sse import LegacySseSessions
from anyport.ingress.http.request_head import RequestHeadParser
from anyport.ingress.http.server import HttpIngress
from anyport.ingress.http.session_store import SessionStore
from anyport.ingress.http.sessions import HttpSessions
from anyport.protocol.exchange import Session
from anyport.protocol.methods import CHANGE_NOTIFICATIONS, OfferKind
from anyport.protocol.quota import QuotaLimits
from anyport.upstream.lease_key import SHARED


def make_access_control(config: Config, host: str) -> AccessControl:
    """Host, Origin and token checks of a gateway that listens on `host`."""
    gateway = config.gateway
    return AccessControl(
        hosts=(host, *gateway.allowed_hosts), origins=gateway.allowed_origins, tokens=gateway.tokens
    )


def default_profile(config: Config) -> str | None:
    """The profile at `/mcp` itself; None if there are several and none is called `default`."""
    try:
        return config.profile().slug
    except UnknownProfile:
        return None


def session_limits(gateway: GatewayConfig) -> QuotaLimits:
    """Limits of sessions, in all and per token.

    With several tokens, one may have at most half of all sessions: a session with an open call
    cannot be evicted, and the other tokens must still find room.
    """
    per_token = gateway.client_sessions_max
    if len(gateway.tokens) > 1:
        per_token = min(per_token, max(1, gateway.sessions_max // 2))
    return QuotaLimits(gateway.sessions_max, per_token)


class IngressConfig:
    """Applies a changed configuration to the ingress.

    Sessions and subscriptions end in good order when their profile is gone, or their token is.
    """

    def __init__(self, host: str, request_heads: RequestHeadParser, ingress: HttpIngress) -> None:
        self._host = host
        self._request_heads = request_heads
        self._ingress = ingress

    def apply_config(self, config: Config) -> None:
        self._request_heads.access = access = make_access_control(config, self._host)
        self._request_heads.default_profile = default_profile(config)
        self._ingress.heads.clear()  # Cached heads were checked by the old access rules.
        endpoint = self._ingress.endpoint
        limits = session_limits(config.gateway)
        endpoint.sessions.quota.limits = endpoint.legacy_sse.quota.limits = limits
        endpoint.sessions.idle_seconds = config.gateway.session_idle_seconds
        for exchange in list(endpoint.modern_requests.subscriptions):
            caller = exchange.caller
            if caller.profile not in config.profiles or not access.is_known(caller.principal):
                endpoint.modern_requests.end_subscription(exchange)
        for session in (*endpoint.sessions, *endpoint.legacy_sse):
            if session.profile not in config.profiles or not access.is_known(session.principal):
                endpoint.end_session(session)
        self._ingress.recheck_access(access)


def restore_resumed_session(gateway: Gateway, session: Session) -> None:
    """Restore the log level and the subscriptions of a session that outlived a restart."""
    # Which lists the client has seen is not known, nor what has changed since: announce them all.
    for kind in OfferKind:
        gateway.notifications.mark_shown(session, kind)
    for method in dict.fromkeys(CHANGE_NOTIFICATIONS.values()):
        session.notify(method, None)
    for server in gateway.profiles[session.profile].servers.values():
        if session.log_level is not None:
            gateway.local_methods.forward_log_level(server)
        if not session.subscriptions:
            continue
        resubscribe = partial(gateway.resource_subscriptions.sync, (server,))
        if has_pending_lists(server):
            # Until the server has listed its resources, a URI cannot be routed to it.
            gateway.local_methods.wait_for_server(server, 0.0, resubscribe)
        else:
            resubscribe()


def make_http_ingress(gateway: Gateway, host: str) -> HttpIngress:
    """The ingress of a gateway that will listen on `host`."""
    config = gateway.config.gateway
    limits = session_limits(config)
    sessions = HttpSessions(
        gateway,
        gateway.seal,
        os.urandom,
        limits=limits,
        idle_seconds=config.session_idle_seconds,
        store=SessionStore(gateway.events.state_dir, time.time),
    )
    sessions.on_resumed = partial(restore_resumed_session, gateway)
    legacy_sse = LegacySseSessions(sessions, limits)
    endpoint = Endpoint(gateway, sessions, legacy_sse, asyncio.get_running_loop().time())
    request_heads = RequestHeadParser(
        make_access_control(gateway.config, host), gateway.profiles, default_profile(gateway.config)
    )
    ingress = HttpIngress(request_heads, endpoint, ApiRouter(gateway), gateway.journal.flush)
    ingress.unrecorded_answers = lambda: gateway.relay.durability.waiting_count
    ingress.memory_budget = gateway.admission.memory_budget
    ingress.scheduler = gateway.scheduler
    ingress.on_timeout = gateway.metrics.count_timeout
    ingress.cancel_open_calls = gateway.relay.calls.expire_all
    gateway.metrics.count_streams = lambda: ingress.streams
    gateway.reload.listeners.append(IngressConfig(host, request_heads, ingress).apply_config)
    return ingress


def start_servers(gateway: Gateway) -> None:
    """Start all servers, so that the first client need not wait for them."""
    for server in gateway.servers.values():
        server.prepare(SHARED)
