"""A gateway in this process, started for one command."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from anyport.catalog.catalog import CatalogEntry
from anyport.cli.connect import client as connect_client
from anyport.cli.connect.client import (
    ConnectedGateway,
    ElicitationHandler,
    FrameHandler,
    GatewayClient,
    GatewayTransport,
    LostHandler,
    NotificationHandler,
)
from anyport.cli.exit_codes import notify_user
from anyport.cli.setup import Setup
from anyport.gateway.gateway import Gateway
from anyport.gateway.profile import Profile
from anyport.protocol.conversation import Conversation
from anyport.protocol.errors import RetryAfter
from anyport.protocol.methods import OfferKind
from anyport.upstream.server import Server
from anyport.upstream.supervisor import ServerState

TRANSPORT: Final = "command"
"""The transport of such a session in the record."""

POLL_SECONDS: Final = 0.02
"""Between two looks at the servers; shorter than a person notices."""


class InProcessTransport:
    """Passes messages straight to a `Conversation` with a gateway in this process."""

    reply_only = False

    def __init__(self, gateway: Gateway, profile: str, on_frame: FrameHandler) -> None:
        self._gateway = gateway
        self._on_frame = on_frame
        self._conversation = Conversation(
            profile=profile,
            handler=gateway,
            writer=self,
            transport=TRANSPORT,
            new_session_id=lambda: os.urandom(8).hex(),
        )

    # For the client

    def send(self, frame: bytes, on_lost: LostHandler | None = None) -> None:
        for _ in self._conversation.receive(frame) or ():
            pass

    async def open_stream(self) -> None:
        """Every message arrives anyway."""

    async def wait_sent(self) -> None:
        """Messages arrive at once."""

    async def close(self) -> None:
        self._conversation.end_input()
        self._conversation.close_session()

    # For the conversation

    def send_frames(self, *frames: bytes) -> None:
        for frame in frames:
            self._on_frame(frame)

    def end(self, frame: bytes, code: int | None = None, pause: RetryAfter | None = None) -> None:
        # As for every client: the event is in the journal before the answer is delivered.
        self._gateway.journal.flush()
        self._on_frame(frame)


def connect_in_process(
    gateway: Gateway, profile: str
) -> Callable[[FrameHandler], GatewayTransport]:
    """A transport factory for `GatewayClient`."""
    return partial(InProcessTransport, gateway, profile)


class LocalGateway(ConnectedGateway):
    """A gateway in this process, with a session."""

    is_anyport = True
    poll_seconds: ClassVar[float] = POLL_SECONDS

    def __init__(self, gateway: Gateway, profile: Profile, client: GatewayClient) -> None:
        self.gateway = gateway
        self.profile = profile
        self.client = client

    @property
    def entries(self) -> Sequence[CatalogEntry]:
        return self.profile.catalog.entries(OfferKind.TOOLS)

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(self.profile.servers)

    @property
    def separator(self) -> str:
        return self.profile.config.separator

    @property
    def is_transparent(self) -> bool:
        return self.profile.transparent

    async def wait_settled(self) -> None:
        await self.wait_while(self._unsettled_servers)

    async def find(self, name: str) -> CatalogEntry | None:
        def waiting() -> list[str]:
            entry = next((entry for entry in self.entries if entry.public == name), None)
            if entry is None:
                return self._unsettled_servers()
            # A list from an earlier run may be out of date, and with it the tool's schema.
            is_current = not entry.slug or is_settled(self.gateway.servers[entry.slug])
            return [] if is_current else self._unsettled_servers()

        await self.wait_while(waiting)
        return self.find_entry(name)

    def _unsettled_servers(self) -> list[str]:
        return [slug for slug, server in self.profile.servers.items() if not is_settled(server)]

    async def refresh(self) -> None:
        """The state is at hand."""

    async def report(self) -> dict[str, Any]:
        return self.gateway.status(self.profile)

    def is_disabled(self, slug: str) -> bool:
        return self.profile.servers[slug].config.disabled

    def trouble_of(self, slug: str) -> str | None:
        return describe_trouble(self.profile.servers[slug])


@asynccontextmanager
async def start_local_gateway(
    setup: Setup,
    *,
    ask: ElicitationHandler | None = None,
    on_log: NotificationHandler | None = None,
    log_level: str | None = None,
) -> AsyncIterator[LocalGateway]:
    """A gateway for the time of a block; its servers are starting when the block begins."""
    # Hooks are for clients' calls, not for what a person tries at a terminal. A transparent
    # profile passes the server's pages on as they are, and commands show whole lists.
    profiles = {
        slug: replace(profile, transparent=False) for slug, profile in setup.config.profiles.items()
    }
    config = replace(setup.config, hooks=(), profiles=profiles)
    async with Gateway(config, setup.state_dir, sole=True) as gateway:
        connect = connect_in_process(gateway, setup.profile)
        client = GatewayClient(connect, ask=ask, on_log=on_log, log_level=log_level)
        await client.open()
        try:
            yield LocalGateway(gateway, gateway.profiles[setup.profile], client)
        finally:
            await client.close()
    error = gateway.journal.last_error
    if error is not None:
        notify_user(f"warning: this could not be recorded in {setup.state_dir}: {error}")


def is_settled(server: Server) -> bool:
    """Whether a server has listed what it offers, or will not."""
    if server.lists_ready or server.disabled_reason is not None:
        return True
    return server.state in (ServerState.BROKEN, ServerState.IDLE, ServerState.STOPPED)


def describe_trouble(server: Server) -> str | None:
    """Why a server's tools are missing or old; None if it is ready, idle or disabled."""
    if server.config.disabled or server.state is ServerState.IDLE:
        return None
    seconds = connect_client.SETTLE_SECONDS_MAX
    if server.state is ServerState.STARTING:
        return f"has not started in {seconds:g} s"
    if server.state is not ServerState.READY:
        return f"is not running: {server.reason or 'no reason is known'}"
    return None if server.lists_ready else f"has not listed its tools in {seconds:g} s"
