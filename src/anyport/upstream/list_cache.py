"""Cache on disk of every server's lists.

A server that is slow to start or down shows what it offered last time. A cache that cannot be read
or written is ignored. Several gateways may share one: each file is replaced as a whole, and the
last writer wins.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from anyport.catalog.offers import Listing, read_page
from anyport.config.model import ServerConfig
from anyport.protocol.extensions import declared_extensions
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Era
from anyport.record.journal.segments import make_private_directory
from anyport.upstream.server import Server
from anyport.wire import raw_json

CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
"""For the lists of one server; the gateway never writes a larger file."""


PROBE_RETRY_SECONDS: Final = 7 * 24 * 3600.0
"""After this a server that crashed on the probe is probed again: it may have been updated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedServer:
    """What is cached of a server."""

    listings: Mapping[OfferKind, Listing] = field(default_factory=dict)
    instructions: str | None = None
    extensions: Mapping[str, bytes] = field(default_factory=dict)
    offered_capabilities: frozenset[str] | None = None
    dies_of_probe: bool = False
    complete: bool = False
    """Whether the lists include what the server shows only to clients that it may ask."""


class _CachedDetails(msgspec.Struct, rename="camel"):
    """What a file holds besides lists. Files of earlier versions may lack members."""

    instructions: str | None = None
    offered: frozenset[str] | None = None
    dies_of_probe: bool = False
    complete: bool = False
    asking: dict[str, frozenset[str]] = {}
    """By list: the offers that the server shows only to clients that it may ask."""
    tasks: bool = False
    """Whether its tools may become tasks."""


class ListCache:
    """One file per server, named after its slug and a hash of its command or URL."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir / "lists"
        self._saved: dict[str, CachedServer] = {}
        """What the files hold, by slug."""

    def restore(self, server: Server, now: float) -> None:
        """Set what a server offers to what is cached."""
        known = self._saved[server.slug] = self.load(server.config, now)
        server.lists.restore(known.listings, complete=known.complete)
        server.instructions, server.extensions = known.instructions, known.extensions
        server.offered_capabilities = known.offered_capabilities
        server.quirks.dies_of_probe = known.dies_of_probe

    def save_if_changed(self, server: Server) -> None:
        """Cache what a server offers now, if it has changed."""
        known = CachedServer(
            listings=dict(server.listings),
            instructions=server.instructions,
            extensions=server.extensions,
            offered_capabilities=server.offered_capabilities,
            dies_of_probe=server.quirks.dies_of_probe,
            complete=server.lists.complete,
        )
        if known != self._saved.get(server.slug):
            self._saved[server.slug] = known
            self.save(server.config, known)

    def load(self, config: ServerConfig, now: float) -> CachedServer:
        """What is cached of a server."""
        path = self._path(config)
        try:
            age_seconds = now - path.stat().st_mtime
            raw = path.read_bytes()
            fields = raw_json.members(raw) if len(raw) <= CACHE_BYTES_MAX else {}
            details = msgspec.json.decode(raw, type=_CachedDetails) if fields else _CachedDetails()
            listings = {
                kind: listing
                for kind in OfferKind
                if (listing := _read(kind, fields.get(kind.value), details)) is not None
            }
        except (OSError, ValueError, RecursionError):
            return CachedServer()
        return CachedServer(
            listings=listings,
            instructions=details.instructions,
            offered_capabilities=details.offered,
            extensions=declared_extensions(fields.get("extensions"), Era.MODERN, unknown=True),
            dies_of_probe=details.dies_of_probe and age_seconds < PROBE_RETRY_SECONDS,
            complete=details.complete,
        )

    def save(self, config: ServerConfig, known: CachedServer) -> None:
        lists = [
            (
                kind.value,
                raw_json.edit(
                    listing.extras,
                    {kind.value: b"[%b]" % b",".join([offer.raw for offer in listing.offers])},
                ),
            )
            for kind, listing in known.listings.items()
        ]
        details = _CachedDetails(
            instructions=known.instructions,
            offered=known.offered_capabilities,
            dies_of_probe=known.dies_of_probe,
            complete=known.complete,
            asking={
                kind.value: frozenset(offer.native for offer in listing.offers if offer.needs_input)
                for kind, listing in known.listings.items()
            },
            tasks=OfferKind.TOOLS in known.listings and known.listings[OfferKind.TOOLS].tasks,
        )
        lists.append(("extensions", raw_json.encode_object(known.extensions.items())))
        detail_fields = raw_json.members(
            msgspec.json.encode(details, order="deterministic")
        ).items()
        lists += [(name, bytes(raw)) for name, raw in detail_fields]
        with suppress(OSError):
            make_private_directory(self._directory)
            self._replace(self._path(config), raw_json.encode_object(lists))

    def _replace(self, path: Path, content: bytes) -> None:
        """Replace a file atomically."""
        fd, temporary = tempfile.mkstemp(".tmp", f"{path.stem}-", self._directory)
        try:
            with open(fd, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise

    def _path(self, config: ServerConfig) -> Path:
        # Only the names of environment variables and headers: values may be secret.
        settings = sorted([*config.env, *config.headers])
        identity = [config.command, *config.args, config.cwd, config.url, settings]
        # The environment need not be UTF-8; other bytes are lone surrogates here.
        text = json.dumps(identity, ensure_ascii=False, separators=(",", ":"))
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._directory / f"{config.slug}-{digest}.json"


def _read(kind: OfferKind, raw: msgspec.Raw | None, details: _CachedDetails) -> Listing | None:
    page = None if raw is None else read_page(kind, bytes(raw))
    if page is None:
        return None
    asking = details.asking.get(kind.value, frozenset())
    offers = [
        msgspec.structs.replace(offer, needs_input=True) if offer.native in asking else offer
        for offer in page.offers
    ]
    tasks = details.tasks and kind is OfferKind.TOOLS
    return Listing(offers=tuple(offers), extras=page.extras, tasks=tasks)
