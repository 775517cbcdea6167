"""What one server offers: its lists, read item by item without decoding the items.

An offer keeps the bytes its server sent. Items that cannot be used are left out and counted:
one bad tool must not spoil a list.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.method import Kind
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
}
"""The member that tells two offers of one kind apart."""


class Offer(msgspec.Struct, frozen=True, gc=False):
    """One tool, prompt, resource or template."""

    native: str
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All offers of one kind from one server."""

    offers: tuple[Offer, ...] = ()
    extras: bytes = b"{}"
    """Members of the list result besides the list; passed on where one server stands alone."""
    warning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page as a server sent it."""

    offers: tuple[Offer, ...]
    cursor: bytes | None
    """The raw next cursor. An empty string is a cursor like any other."""
    extras: bytes
    dropped: int


@dataclass(slots=True)
class Gathering:
    """Collects the pages of one list, within the limits."""

    kind: Kind
    _offers: dict[str, Offer] = field(default_factory=dict)
    _cursors: set[bytes] = field(default_factory=set)
    _extras: bytes | None = None
    _bytes: int = 0
    _dropped: int = 0
    _warning: str | None = None

    def add(self, page: Page) -> bytes | None:
        """Take a page; the cursor to ask for next, or None when the list is complete."""
        if self._extras is None:
            self._extras = page.extras
        if page.dropped:
            self._dropped += page.dropped
            self._warning = f"{self._dropped} of its {self.kind.value} cannot be used"
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
        )


def read_page(kind: Kind, result: bytes) -> Page | None:
    """A page from a raw list result; None if it has no such list."""
    try:
        found = members.members(result)
        items = msgspec.json.decode(found[kind.value], type=list[Raw])
    except (msgspec.DecodeError, KeyError):
        return None
    offers = [offer for item in items if (offer := _read_offer(kind, bytes(item))) is not None]
    cursor = found.get("nextCursor")
    extras = [
        (name, bytes(value))
        for name, value in found.items()
        if name not in (kind.value, "nextCursor")
    ]
    return Page(
        offers=tuple(offers),
        cursor=None if cursor is None or bytes(cursor)[:1] != b'"' else bytes(cursor),
        extras=members.join(extras),
        dropped=len(items) - len(offers),
    )


def _read_offer(kind: Kind, raw: bytes) -> Offer | None:
    try:
        where = members.spans(raw)
        start, end = where[IDENTITY[kind]]
        native = msgspec.json.decode(raw[start:end], type=str)
    except (msgspec.DecodeError, members.Ambiguous, KeyError):
        return None
    return Offer(native, raw)
