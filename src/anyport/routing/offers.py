"""What one server offers: its lists, read item by item without decoding the items.

An offer keeps the bytes its server sent. Items that cannot be used are left out and counted:
one bad tool must not spoil a list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.freshness import HINTS, STALE, Freshness, least, read_freshness
from anyport.protocol.headers import NO_ANNOTATIONS, Annotations, annotations
from anyport.protocol.method import Kind
from anyport.protocol.shape import ABSENT
from anyport.wire import members

OFFERS_MAX: Final = 5_000
"""Offers of one kind from one server; a client could not use more."""
OFFERS_BYTES_MAX: Final = 8 * 1024 * 1024
PAGES_MAX: Final = 100
"""Pages of one list; a server whose cursors never end is cut here."""

IDENTITY: Final[Mapping[Kind, str]] = {
    Kind.TOOLS: "name",
    Kind.PROMPTS: "name",
    Kind.RESOURCES: "uri",
    Kind.TEMPLATES: "uriTemplate",
    Kind.SKILLS: "uri",
}
"""The member that tells two offers of one kind apart."""


class Offer(msgspec.Struct, frozen=True, gc=False):
    """One tool, prompt, resource or template."""

    native: str
    raw: bytes
    annotations: Annotations = NO_ANNOTATIONS
    """Which arguments of a tool are repeated in header fields over HTTP."""
    asks: bool = False
    """The server shows it only where it may ask its client something."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """All offers of one kind from one server."""

    offers: tuple[Offer, ...] = ()
    extras: bytes = b"{}"
    """Members of the list result besides the list; passed on where one server stands alone."""
    warning: str | None = None
    tasks: bool = False
    """Whether any of these tools may become a task, as those of a modern server may."""
    freshness: Freshness = field(default=STALE, compare=False)
    """What its server says of it: of all pages, the least. No part of what it offers."""
    read_at: float = field(default=float("-inf"), compare=False)
    """When it was asked for, by a clock that is only good for this process."""

    @cached_property
    def annotated(self) -> Mapping[str, Annotations]:
        """The tools some of whose arguments are repeated in header fields."""
        return {offer.native: offer.annotations for offer in self.offers if offer.annotations}

    @cached_property
    def tasked(self) -> Mapping[str, str]:
        """The tools that may or must be run as tasks in a session, and which of the two."""
        supports = {offer.native: _task_support(offer.raw) for offer in self.offers}
        return {native: support for native, support in supports.items() if support is not None}


def _task_support(tool: bytes) -> str | None:
    if b'"taskSupport"' not in tool:
        return None
    try:
        execution = members.members(tool)["execution"]
        support = members.string(members.members(execution).get("taskSupport"))
    except (msgspec.DecodeError, KeyError):
        return None
    return support if support in ("optional", "required") else None


def widened(listing: Listing, wider: Sequence[Offer]) -> Listing:
    """A list, and in it what only those see whom the server may ask, in the order these see.

    `wider` is what those saw last. What everyone could see and nobody sees any more has gone.
    """
    left = {offer.native: offer for offer in listing.offers}
    offers = [
        left.pop(offer.native, offer) for offer in wider if offer.asks or offer.native in left
    ]
    return replace(listing, offers=(*offers, *left.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page as a server sent it."""

    offers: tuple[Offer, ...]
    cursor: bytes | None
    """The raw next cursor. An empty string is a cursor like any other."""
    extras: bytes
    freshness: Freshness
    dropped: int
    fault: str | None = None
    """Why the first of the dropped ones was, where that can be told."""


@dataclass(slots=True)
class Gathering:
    """Collects the pages of one list, within the limits."""

    kind: Kind
    tasks: bool = False
    """Whether the tools may become tasks."""
    _offers: dict[str, Offer] = field(default_factory=dict)
    _cursors: set[bytes] = field(default_factory=set)
    _extras: bytes | None = None
    _freshness: list[Freshness] = field(default_factory=list)
    _bytes: int = 0
    _dropped: int = 0
    _warning: str | None = None
    _why: str | None = None

    def add(self, page: Page) -> bytes | None:
        """Take a page; the cursor to ask for next, or None when the list is complete."""
        if self._extras is None:
            self._extras = page.extras
        self._freshness.append(page.freshness)
        if page.dropped:
            self._dropped += page.dropped
            self._why = self._why or page.fault
            words = f"{self._dropped} of its {self.kind.value} cannot be used"
            self._warning = words if self._why is None else f"{words}: {self._why}"
        for offer in page.offers:
            if len(self._offers) >= OFFERS_MAX or self._bytes + len(offer.raw) > OFFERS_BYTES_MAX:
                self._warning = f"its {self.kind.value} were cut at {len(self._offers)}"
                return None
            if self._offers.setdefault(offer.native, offer) is offer:
                self._bytes += len(offer.raw)
        if page.cursor is None or page.cursor in self._cursors:
            return None
        self._cursors.add(page.cursor)
        if len(self._cursors) >= PAGES_MAX:
            self._warning = f"its {self.kind.value} were cut after {PAGES_MAX} pages"
            return None
        return page.cursor

    def listing(self) -> Listing:
        """What was collected."""
        return Listing(
            offers=tuple(self._offers.values()),
            extras=self._extras or b"{}",
            warning=self._warning,
            tasks=self.tasks,
            freshness=least(self._freshness),
        )


def read_page(kind: Kind, result: bytes, *, over_http: bool = False) -> Page | None:
    """A page from a raw list result; None if it has no such list.

    A tool whose `x-mcp-header` is invalid cannot be called over HTTP, and is left out there.
    """
    try:
        found = members.members(result)
        items = msgspec.json.decode(found[kind.value], type=list[Raw])
    except (msgspec.DecodeError, KeyError):
        return None
    offers: list[Offer] = []
    first_fault: str | None = None
    for item in items:
        offer, fault = _read_offer(kind, bytes(item))
        if offer is not None and (fault is None or not over_http):
            offers.append(offer)
        else:
            first_fault = first_fault or fault
    cursor = found.get("nextCursor")
    extras = [
        (name, bytes(value))
        for name, value in found.items()
        if name not in (kind.value, "nextCursor", "resultType", *HINTS)
    ]
    return Page(
        offers=tuple(offers),
        cursor=None if cursor is None or bytes(cursor)[:1] != b'"' else bytes(cursor),
        extras=members.join(extras),
        freshness=read_freshness(*(found.get(hint, ABSENT) for hint in HINTS)),
        dropped=len(items) - len(offers),
        fault=first_fault,
    )


def _read_offer(kind: Kind, raw: bytes) -> tuple[Offer | None, str | None]:
    """An offer, unless it cannot be read at all, and what is wrong with its annotations."""
    try:
        where = members.spans(raw)
        start, end = where[IDENTITY[kind]]
        native = msgspec.json.decode(raw[start:end], type=str)
    except (msgspec.DecodeError, members.Ambiguous, KeyError):
        return None, None
    if kind is not Kind.TOOLS or "inputSchema" not in where:
        return Offer(native, raw), None
    start, end = where["inputSchema"]
    annotated = annotations(raw[start:end])
    if isinstance(annotated, str):
        return Offer(native, raw), f"the tool {native!r} has an invalid {annotated}"
    return Offer(native, raw, annotated), None
