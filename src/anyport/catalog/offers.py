"""The lists of one server, split into raw items.

An offer keeps the bytes that its server sent. Invalid items are dropped and counted, so that one
bad tool does not spoil a list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.cache_hints import HINTS, STALE, Freshness, least_fresh, read_freshness
from anyport.protocol.headers import NO_ANNOTATIONS, Annotations, read_annotations
from anyport.protocol.methods import OfferKind
from anyport.protocol.result import ABSENT
from anyport.wire import raw_json

OFFERS_MAX: Final = 5_000
"""Offers of one kind from one server; no client can use more."""
OFFERS_BYTES_MAX: Final = 8 * 1024 * 1024
PAGES_MAX: Final = 100
"""Pages of one list; protects against cursors that never end."""

IDENTITY_MEMBERS: Final[Mapping[OfferKind, str]] = {
    OfferKind.TOOLS: "name",
    OfferKind.PROMPTS: "name",
    OfferKind.RESOURCES: "uri",
    OfferKind.TEMPLATES: "uriTemplate",
    OfferKind.SKILLS: "uri",
}
"""The member that identifies an offer."""
_READ_MEMBERS: Final = frozenset(
    {*IDENTITY_MEMBERS.values(), "inputSchema", "outputSchema", "execution", "_meta", "resources"}
)
"""Members that the gateway reads or writes; see `raw_json.remove_lookalikes`."""
_USUAL_MEMBERS: Final = _READ_MEMBERS | {
    "title",
    "description",
    "annotations",
    "arguments",
    "mimeType",
    "icons",
}


class Offer(msgspec.Struct, frozen=True, gc=False):
    """One tool, prompt, resource or template."""

    native: str
    raw: bytes
    annotations: Annotations = NO_ANNOTATIONS
    """Arguments of a tool that HTTP requests repeat in header fields (`x-mcp-header`)."""
    needs_input: bool = False
    """The server offers it only to clients that can answer questions."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """All offers of one kind from one server."""

    offers: tuple[Offer, ...] = ()
    extras: bytes = b"{}"
    """Other members of the list result; a transparent profile passes them on."""
    warning: str | None = None
    tasks: bool = False
    """Whether calls to these tools may become tasks, as with a modern server."""
    freshness: Freshness = field(default=STALE, compare=False)
    """Freshness of the list: that of its least fresh page."""
    read_at: float = field(default=float("-inf"), compare=False)
    """When the list was requested, in monotonic time."""

    @cached_property
    def annotations_by_tool(self) -> Mapping[str, Annotations]:
        """Annotations of the tools that have any (`x-mcp-header`)."""
        return {offer.native: offer.annotations for offer in self.offers if offer.annotations}

    @cached_property
    def task_support_by_tool(self) -> Mapping[str, str]:
        """`optional` or `required`, for tools that can be run as tasks in a session."""
        supports = {offer.native: _task_support(offer.raw) for offer in self.offers}
        return {native: support for native, support in supports.items() if support is not None}


def _task_support(tool: bytes) -> str | None:
    if b'"taskSupport"' not in tool:
        return None
    try:
        execution = raw_json.members(tool)["execution"]
        support = raw_json.decode_string(raw_json.members(execution).get("taskSupport"))
    except (msgspec.DecodeError, KeyError):
        return None
    return support if support in ("optional", "required") else None


def widen_listing(listing: Listing, wider: Sequence[Offer]) -> Listing:
    """Add the offers that only askable clients see, in the order of `wider`.

    `wider` is the last list that the server sent for an askable client. Its other offers are
    dropped if `listing` no longer has them.
    """
    remaining = {offer.native: offer for offer in listing.offers}
    offers = [
        remaining.pop(offer.native, offer)
        for offer in wider
        if offer.needs_input or offer.native in remaining
    ]
    return replace(listing, offers=(*offers, *remaining.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """One page of a list from a server."""

    offers: tuple[Offer, ...]
    cursor: bytes | None
    """The raw next cursor. An empty string is a valid cursor."""
    extras: bytes
    freshness: Freshness
    dropped: int
    fault: str | None = None
    """Why the first dropped offer is invalid, if known."""


@dataclass(slots=True)
class ListCollector:
    """Collects the pages of one list, within limits."""

    kind: OfferKind
    tasks: bool = False
    """Whether calls to the tools may become tasks."""
    _offers: dict[str, Offer] = field(default_factory=dict)
    _cursors: set[bytes] = field(default_factory=set)
    _extras: bytes | None = None
    _freshness: list[Freshness] = field(default_factory=list)
    _bytes: int = 0
    _dropped: int = 0
    _warning: str | None = None
    _first_fault: str | None = None

    def add(self, page: ListPage) -> bytes | None:
        """Add a page; returns the cursor of the next one, or None if the list is complete."""
        if self._extras is None:
            self._extras = page.extras
        self._freshness.append(page.freshness)
        if page.dropped:
            self._dropped += page.dropped
            self._first_fault = self._first_fault or page.fault
            warning = f"{self._dropped} of its {self.kind.value} cannot be used"
            fault = self._first_fault
            self._warning = warning if fault is None else f"{warning}: {fault}"
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
        return Listing(
            offers=tuple(self._offers.values()),
            extras=self._extras or b"{}",
            warning=self._warning,
            tasks=self.tasks,
            freshness=least_fresh(self._freshness),
        )


def read_page(kind: OfferKind, result: bytes, *, over_http: bool = False) -> ListPage | None:
    """Read a raw list result; None if it has no list of this kind.

    A tool with an invalid `x-mcp-header` cannot be called over HTTP, so it is dropped there.
    """
    try:
        result_members = raw_json.members(result)
        items = msgspec.json.decode(result_members[kind.value], type=list[Raw])
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
    cursor = result_members.get("nextCursor")
    extras = [
        (name, bytes(value))
        for name, value in result_members.items()
        if name not in (kind.value, "nextCursor", "resultType", *HINTS)
    ]
    return ListPage(
        offers=tuple(offers),
        cursor=None if cursor is None or bytes(cursor)[:1] != b'"' else bytes(cursor),
        extras=raw_json.encode_object(extras),
        freshness=read_freshness(*(result_members.get(hint, ABSENT) for hint in HINTS)),
        dropped=len(items) - len(offers),
        fault=first_fault,
    )


def is_repeatable(tools: Listing | None, name: str) -> bool | None:
    """Whether a tool is read-only or idempotent by its annotations; None if they do not say.

    Defaults of the hints do not count, because most servers write none. "Clients MUST consider tool
    annotations to be untrusted unless they come from trusted servers" (server/tools), so the hints
    only decide whether a call to that same server is retried.
    """
    offers = () if tools is None else tools.offers
    raw = next((offer.raw for offer in offers if offer.native == name), None)
    if raw is None or b'"annotations"' not in raw:
        return None
    try:
        hints = raw_json.members(raw_json.members(raw)["annotations"])
    except (msgspec.DecodeError, KeyError):
        return None
    written = {hint: bytes(value) for hint, value in hints.items()}
    destructive = written.get("destructiveHint") == b"true"
    if written.get("idempotentHint") == b"true":
        return True
    if written.get("readOnlyHint") == b"true" and not destructive:
        return True
    return False if destructive or written.get("idempotentHint") == b"false" else None


def _read_offer(kind: OfferKind, raw: bytes) -> tuple[Offer | None, str | None]:
    """The offer, None if it cannot be read; and a fault of its annotations, if any."""
    try:
        value_spans = raw_json.spans(raw)
        if not value_spans.keys() <= _USUAL_MEMBERS:
            cleaned = raw_json.remove_lookalikes(raw, _READ_MEMBERS)
            raw, value_spans = cleaned, value_spans if cleaned is raw else raw_json.spans(cleaned)
        start, end = value_spans[IDENTITY_MEMBERS[kind]]
        native = msgspec.json.decode(raw[start:end], type=str)
    except (msgspec.DecodeError, raw_json.AmbiguousObject, KeyError):
        return None, None
    if kind is not OfferKind.TOOLS or "inputSchema" not in value_spans:
        return Offer(native, raw), None
    start, end = value_spans["inputSchema"]
    annotated = read_annotations(raw[start:end])
    if isinstance(annotated, str):
        return Offer(native, raw), f"the tool {native!r} has an invalid {annotated}"
    return Offer(native, raw, annotated), None
