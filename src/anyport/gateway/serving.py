"""The gateway for clients over HTTP: its parts, put together."""

import asyncio
import os

from anyport.config.schema import UnknownProfile
from anyport.gateway.api.around import Around
from anyport.gateway.runtime import Gateway
from anyport.ingress.http.door import Door
from anyport.ingress.http.endpoint import Endpoint
from anyport.ingress.http.older import OlderSessions
from anyport.ingress.http.server import HttpIngress
from anyport.ingress.http.sessions import Sessions
from anyport.ingress.http.visit import Reception
from anyport.upstream.server import SHARED


def http_ingress(gateway: Gateway, host: str) -> HttpIngress:
    """The ingress of a gateway that is going to listen on `host`."""
    config = gateway.config.gateway
    try:
        default: str | None = gateway.config.profile().slug
    except UnknownProfile:
        default = None
    door = Door(
        hosts=(host, *config.allowed_hosts), origins=config.allowed_origins, tokens=config.tokens
    )
    sessions = Sessions(
        gateway,
        gateway.seal,
        os.urandom,
        sessions_max=config.sessions_max,
        idle_seconds=config.session_idle_seconds,
    )
    older = OlderSessions(sessions, config.sessions_max)
    endpoint = Endpoint(gateway, sessions, older, asyncio.get_running_loop().time())
    reception = Reception(door, gateway.profiles, default)
    ingress = HttpIngress(reception, endpoint, Around(gateway), gateway.journal.flush)
    gateway.metrics.streams = lambda: ingress.streams
    return ingress


def start_servers(gateway: Gateway) -> None:
    """Start every server, side by side, so that the first client need not wait for them."""
    for server in gateway.servers.values():
        server.open(SHARED)
