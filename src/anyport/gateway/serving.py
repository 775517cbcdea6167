"""The gateway for clients over HTTP: its parts, put together."""

import asyncio
import os
import time
from functools import partial

from anyport.gateway.api.around import Around
from anyport.gateway.returning import welcome_back
from anyport.gateway.runtime import Gateway
from anyport.gateway.threshold import Threshold, default_profile, door
from anyport.ingress.http.endpoint import Endpoint
from anyport.ingress.http.older import OlderSessions
from anyport.ingress.http.register import Register
from anyport.ingress.http.server import HttpIngress
from anyport.ingress.http.sessions import Sessions
from anyport.ingress.http.visit import Reception
from anyport.upstream.key import SHARED


def http_ingress(gateway: Gateway, host: str) -> HttpIngress:
    """The ingress of a gateway that is going to listen on `host`."""
    config = gateway.config.gateway
    sessions = Sessions(
        gateway,
        gateway.seal,
        os.urandom,
        sessions_max=config.sessions_max,
        idle_seconds=config.session_idle_seconds,
        register=Register(gateway.events.state_dir, time.time),
    )
    sessions.on_resumed = partial(welcome_back, gateway)
    older = OlderSessions(sessions, config.sessions_max)
    endpoint = Endpoint(gateway, sessions, older, asyncio.get_running_loop().time())
    reception = Reception(
        door(gateway.config, host), gateway.profiles, default_profile(gateway.config)
    )
    ingress = HttpIngress(reception, endpoint, Around(gateway), gateway.journal.flush)
    ingress.held = lambda: gateway.relay.sluice.waiting
    ingress.room = gateway.admission.room
    ingress.timed_out = gateway.metrics.timed_out
    ingress.give_up = gateway.relay.deadlines.give_up
    gateway.metrics.streams = lambda: ingress.streams
    gateway.reload.heard.append(Threshold(host, reception, ingress).take)
    return ingress


def start_servers(gateway: Gateway) -> None:
    """Start every server, side by side, so that the first client need not wait for them."""
    for server in gateway.servers.values():
        server.prepare(SHARED)
