"""When the lists of one server are read, and how old they may get.

They are read when the server has started, when it says that they changed, and when somebody wants
to see one that is too old to be shown. Nothing is read because time goes by: "Clients SHOULD NOT
treat TTL as a polling interval" (server/utilities/caching). How a list is read is known elsewhere.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from anyport.config.schema import ServerConfig
from anyport.protocol.freshness import STALE, Freshness
from anyport.protocol.method import Kind
from anyport.routing.offers import Listing
from anyport.upstream.connection import Connection
from anyport.upstream.listing import Reader
from anyport.upstream.watch import Ticking

RELIST_SECONDS_MIN: Final = 2.0
"""Between two looks at the lists of a server that says all the time that they changed."""
RENEW_SECONDS_MIN: Final = 1.0
"""A list that was asked for so lately is shown to whoever asks next, however short its time is."""

_NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The connections through which lists are read, as they are now."""

    main: Connection | None
    asking: Connection | None = None
    """One over which the server may ask, where it sees fit to show more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What reading lists needs, and who is told of it."""

    lines: Callable[[], Lines]
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    time: Ticking
    done: Callable[[Lines, str | None, frozenset[Kind]], None]
    """Told which lists were found changed, and what there is to complain of."""


class Lists:
    """The lists of one server, as last known."""

    def __init__(self, config: ServerConfig, readings: Readings) -> None:
        self.known: dict[Kind, Listing] = {}
        self.complete = False
        """Whether it is known what a client sees whom the server may ask."""
        self._readings = readings
        self._reader = Reader(config)
        self._stale: set[Kind] = set()
        """To be read, as soon as may be."""
        self._reading: set[Kind] = set()
        """Being read now."""
        self._wanted: set[Kind] = set()
        """Of those, the ones that somebody waits for."""
        self._planned = False
        self._planned_at = _NEVER
        """When they were last read because the server said so."""
        self._asked_at: dict[Kind, float] = {}
        self._refreshed: list[Callable[[], None]] = []
        """Who waits for the tools to be read again."""

    def recall(self, known: Mapping[Kind, Listing], *, complete: bool) -> None:
        """Take what was listed in an earlier life of the gateway."""
        self.known.update(known)
        self.complete = complete
        self._reader.recall(known)

    def read_all(self) -> None:
        """Read every list: it is another process, or another session, from now on."""
        self._stale.update(Kind)
        self._start()

    def mark_stale(self, kinds: Iterable[Kind]) -> None:
        """These lists may have changed: read them again, soon but not too often."""
        self._stale.update(kinds)
        if self._reading or self._planned or not self._stale:
            return
        self._planned = True
        time = self._readings.time
        time.later(max(0.0, self._planned_at + RELIST_SECONDS_MIN - time.clock()), self._as_planned)

    def refresh_tools(self, then: Callable[[], None]) -> None:
        """Read the tools again, then call back."""
        self._refreshed.append(then)
        self.mark_stale((Kind.TOOLS,))

    def renew(self, kind: Kind, *, told: bool) -> bool:
        """Have a list read if it is too old to be shown; whether that is worth waiting for.

        `told` says that a change would have been heard of: then age does not matter.
        """
        if kind in self._reading:
            self._wanted.add(kind)
        elif kind not in self._wanted and not self._is_good(kind, told=told):
            self._stale.add(kind)
            self._wanted.add(kind)
            self._start()
        return self.is_awaited(kind)

    def is_awaited(self, kind: Kind) -> bool:
        """Whether a list is being read that somebody waits for."""
        return kind in self._wanted

    def freshness(self, kind: Kind, *, told: bool) -> Freshness:
        """What may be said of a list now; `told` as above.

        A list of which no change was told is as good as read now.
        """
        listing = self.known.get(kind)
        if listing is None:
            return STALE
        if kind in self._stale or kind in self._reading:
            return Freshness(0, listing.freshness.public)
        if told:
            return listing.freshness
        return listing.freshness.after(self._readings.time.clock() - listing.read_at)

    def _is_good(self, kind: Kind, *, told: bool) -> bool:
        if self._readings.time.clock() < self._asked_at.get(kind, _NEVER) + RENEW_SECONDS_MIN:
            return True
        if kind in self._stale:
            return False
        return told or self.freshness(kind, told=False).ttl_ms > 0

    def _as_planned(self) -> None:
        self._planned = False
        if self._stale and not self._reading:
            self._planned_at = self._readings.time.clock()
            self._start()

    def _start(self) -> None:
        if self._reading or not self._stale:
            return
        self._reading, self._stale = self._stale, set()
        self._asked_at.update(dict.fromkeys(self._reading, self._readings.time.clock()))
        self._readings.spawn(self._read())

    async def _read(self) -> None:
        """Read the lists that may have changed, all pages of each."""
        kinds, lines, time = self._reading, self._readings.lines(), self._readings.time
        before, began, warning = dict(self.known), time.clock(), None
        if lines.main is not None and lines.main.peer is not None:
            warning = await self._reader.renew(self.known, kinds, lines.main, lines.asking)
            self.complete = self.complete or self._reader.complete
            if warning is not None:
                delay = self._reader.delay(time.chance())
                time.later(delay, partial(self.mark_stale, tuple(kinds)))
        changed = {kind for kind in kinds if self.known.get(kind) != before.get(kind)}
        for kind in kinds:
            self._date(kind, before.get(kind), began)
        self._reading = set()
        self._wanted -= kinds
        self._readings.done(lines, warning, frozenset(changed))
        if Kind.TOOLS not in self._stale:
            refreshed, self._refreshed = self._refreshed, []
            for then in refreshed:
                then()
        if self._wanted:
            self._start()
        self.mark_stale(())

    def _date(self, kind: Kind, before: Listing | None, began: float) -> None:
        """Say of a list that was read when that was; of two that are the same, keep the first."""
        now = self.known.get(kind)
        if now is None or now is before:
            return
        kept = before if before == now and before is not None else now
        self.known[kind] = replace(kept, freshness=now.freshness, read_at=began)
