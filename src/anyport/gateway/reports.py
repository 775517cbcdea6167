"""What servers report, and who gets to know: the lists, the clients, the record."""

import time
from typing import Final, Protocol

from anyport.gateway.asides import Asides
from anyport.gateway.cache import ListCache
from anyport.gateway.desk import Desk
from anyport.gateway.feed import Feed
from anyport.gateway.interest import Interest
from anyport.gateway.memory import Memory
from anyport.gateway.metrics import Metrics
from anyport.gateway.noting import Note
from anyport.gateway.profile import Profile
from anyport.gateway.questions import Questions
from anyport.gateway.relay import Relay
from anyport.gateway.reliance import is_relied_on
from anyport.gateway.tasks import ABOUT_TASKS
from anyport.protocol.method import Kind
from anyport.protocol.timeouts import Timeout
from anyport.record.event import MetadataValue
from anyport.record.ration import Ration
from anyport.upstream.connection import Connection
from anyport.upstream.hearer import Noise
from anyport.upstream.key import LeaseKey
from anyport.upstream.process import GRACE_SECONDS_MAX, TERMINATE_SECONDS_MAX
from anyport.upstream.server import Server
from anyport.wire.frame import Notification, Request

KILLED: Final = (
    f"it did not exit within {GRACE_SECONDS_MAX + TERMINATE_SECONDS_MAX:g} s of being asked to, "
    "and was killed"
)

STDERR_EVENTS_PER_SECOND_MAX: Final = 10
"""Lines of one server's stderr that the journal keeps; the rest stay in the ring only."""


class Inside(Protocol):
    """What of the gateway is told, once it is all there."""

    memory: Memory
    metrics: Metrics
    profiles: dict[str, Profile]
    relay: Relay
    feed: Feed
    desk: Desk
    interest: Interest
    questions: Questions
    asides: Asides

    @property
    def note(self) -> Note:
        """Notes an event of the gateway itself."""


class Reports:
    """Takes what servers report."""

    def __init__(self, inside: Inside, cache: ListCache) -> None:
        self._inside = inside
        self._cache = cache
        self._stderr_ration = Ration(STDERR_EVENTS_PER_SECOND_MAX)

    def timed_out(self, slug: str, timeout: Timeout) -> None:
        """Something about a server took too long; what fails because of it is told there."""
        self._inside.metrics.timed_out(timeout)
        if timeout is Timeout.KILL:
            note = self._inside.note
            note("gateway.backend_stopped", "timeout", error_message=KILLED, **_late(slug, timeout))

    def listed(self, server: Server, changed: frozenset[Kind]) -> None:
        """A server's lists were read."""
        self._cache.keep(server)
        for profile in self._inside.profiles.values():
            if changed and server.slug in profile.servers and (visible := profile.refresh()):
                self._inside.feed.lists_changed(profile, visible)
        self._inside.desk.lists_settled()

    def started(self, server: Server, key: LeaseKey) -> None:
        """A connection to a server is ready."""
        peer, main = server.peer, server.main
        if peer is not None and main is not None:
            self._inside.note(
                "gateway.backend_started",
                server=server.slug,
                era=peer.revision.era.value,
                revision=peer.revision.name,
                transport=server.transport,
                restarts=main.restarts,
            )
        self._inside.desk.pass_level(server)
        self._inside.relay.tasks.renewed(server, key)
        self._inside.questions.renewed(server, key)
        self._inside.interest.restore(server, key)

    def failed(self, server: Server, reason: str) -> None:
        """A server broke, or could not be started."""
        self._inside.memory.littered()
        self._inside.metrics.restarted(server.slug)
        timeout = server.timeout_of(reason)
        about: dict[str, MetadataValue] = {"server": server.slug}
        if timeout is not None:
            about |= _late(server.slug, timeout)
        self._inside.note(
            "gateway.backend_failed",
            "failure" if timeout is None else "timeout",
            error_message=reason,
            transport=server.transport,
            restarts=0 if server.main is None else server.main.restarts,
            **about,
        )
        self._inside.desk.lists_settled()

    def ejected(self, server: Server, reason: str, failures: int, seconds: float) -> None:
        """A server gets no calls for a while."""
        self._inside.note(
            "gateway.backend_ejected",
            "failure",
            error_message=reason,
            server=server.slug,
            failures=failures,
            seconds=round(seconds, 3),
            reason=reason,
        )

    def restored(self, server: Server, seconds: float) -> None:
        """A server gets calls again."""
        took = round(seconds, 3)
        self._inside.note("gateway.backend_restored", server=server.slug, seconds=took)

    def stopped(self, server: Server) -> None:
        """A connection was closed because its session has ended."""
        self._inside.memory.littered()
        self._inside.note("gateway.backend_stopped", server=server.slug, reason="session ended")

    def rested(self, server: Server) -> None:
        """A connection was closed because nobody used it."""
        self._inside.memory.littered()
        seconds = server.config.idle_seconds
        self._inside.note("gateway.backend_idle", server=server.slug, seconds=seconds)

    def relied_on(self, server: Server, key: LeaseKey, line: Connection | None) -> bool:
        """Whether a client relies on what it has over a connection."""
        return is_relied_on(self._inside, server, key, line)

    def retired(self, server: Server) -> None:
        """A server that is no longer in the configuration has finished, and was stopped."""
        self._inside.memory.littered()
        reason = "no longer in the configuration"
        self._inside.note("gateway.backend_stopped", server=server.slug, reason=reason)

    def asked(self, server: Server, key: LeaseKey, line: Connection, request: Request) -> None:
        """A server asks something."""
        self._inside.questions.asked(server, key, line, request)

    def told(
        self, server: Server, key: LeaseKey, line: Connection, notification: Notification
    ) -> None:
        """A server says something on its own."""
        if notification.method == "notifications/cancelled":
            self._inside.questions.withdrawn(line, notification)
        elif notification.method in ABOUT_TASKS:
            self._inside.relay.tasks.told(server, line, notification.params or b"{}")
        elif self._inside.feed.told(server, key, notification, line.about):
            return  # It is recorded with the call that it belongs to.
        self._inside.asides.told(server, notification)

    def lost(self, server: Server, line: Connection) -> None:
        """A connection has ended."""
        self._inside.questions.lost(line)
        self._inside.relay.tasks.lost(line)

    def garbled(self, server: Server, said: Noise, words: str) -> None:
        """A server said something that is of no use."""
        self._inside.asides.garbled(server, said, words)

    def wrote(self, server: Server, lines: list[str]) -> None:
        """A server wrote to its stderr: it goes into the record, never to a client."""
        for text in lines[: self._stderr_ration.take(server.slug, len(lines), time.monotonic())]:
            self._inside.note(
                "gateway.stderr", method="notifications/stderr", server=server.slug, line=text
            )


def _late(slug: str, timeout: Timeout) -> dict[str, MetadataValue]:
    return {"server": slug, "timeout": timeout.value}
