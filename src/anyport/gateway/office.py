"""The relay, as an errand sees it, and the desk, as the relay does."""

from collections.abc import Callable
from typing import Protocol

from anyport.gateway.attempts import Retries
from anyport.gateway.deadlines import Deadlines
from anyport.gateway.endings import Endings
from anyport.gateway.leases import Leases
from anyport.gateway.ledger import Habit
from anyport.gateway.parks import Parks
from anyport.gateway.profile import Profile
from anyport.gateway.states import States
from anyport.gateway.tasks import Tasks
from anyport.protocol.exchange import Ending, Exchange
from anyport.routing.route import Route
from anyport.upstream.server import Server


class Office(Protocol):
    """What an errand needs besides its server."""

    clock: Callable[[], float]
    later: Callable[[float, Callable[[], None]], object]
    deadlines: Deadlines
    endings: Endings
    leases: Leases
    parks: Parks
    retries: Retries
    states: States
    tasks: Tasks

    def finish(
        self,
        exchange: Exchange,
        slug: str,
        native: str,
        ending: Ending,
        waited: float | None = None,
    ) -> None:
        """The one way out of a call."""

    def give_up(self, exchange: Exchange, slug: str, native: str) -> None:
        """The other way out: the client no longer wants the answer."""

    def broke(self, exchange: Exchange, error: Exception) -> None:
        """Something of ours broke on the way."""

    def note_pending(self, exchange: Exchange, slug: str, native: str) -> None:
        """A call takes a while."""

    def habit(self, exchange: Exchange, slug: str, native: str) -> Habit:
        """How calls like this one are noted."""


class Desk(Protocol):
    """Answers what no single server can."""

    def answer(self, exchange: Exchange, profile: Profile) -> None:
        """Answer a request that the gateway answers itself."""

    def use_tool(self, exchange: Exchange, profile: Profile, tool: str) -> None:
        """Run one of the gateway's own tools."""

    def subscribe(self, exchange: Exchange, server: Server, route: Route) -> None:
        """Start or end a client's interest in a resource."""

    def wait_for_lists(self, profile: Profile, then: Callable[[], None]) -> None:
        """Run something once every server has told what it offers, or has had its time."""

    def wait_for_server(self, server: Server, waited: float, then: Callable[[], None]) -> None:
        """Run something once a server has told what it offers, or cannot, or had its time."""
