"""The last known lists of every server, kept between runs.

A server that is slow to start, down or not started today still shows what it offered yesterday. A
cache that cannot be read or written is no reason to fail: it is only a head start. Several gateways
may share one; each file is replaced as a whole, and the last one to write it is right.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from anyport.config.schema import ServerConfig
from anyport.protocol.extension import declared_extensions
from anyport.protocol.method import Kind
from anyport.protocol.revision import Era
from anyport.record.segments import make_private_directory
from anyport.routing.offers import Listing, read_page
from anyport.upstream.server import Server
from anyport.wire import members

CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
"""All lists of one server; a larger file was not written by us."""


PROBE_AGAIN_SECONDS: Final = 7 * 24 * 3600.0
"""A server that died of the probe may have been updated since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is remembered of a server."""

    listings: Mapping[Kind, Listing] = field(default_factory=dict)
    instructions: str | None = None
    extensions: Mapping[str, bytes] = field(default_factory=dict)
    dies_of_probe: bool = False
    complete: bool = False
    """Whether the lists hold what a client sees whom the server may ask."""


class _Marks(msgspec.Struct, rename="camel"):
    """What a file holds beside lists; one that an earlier version wrote may lack some of it."""

    instructions: str | None = None
    dies_of_probe: bool = False
    complete: bool = False
    asking: dict[str, frozenset[str]] = {}
    """Of each list, what the server shows only where it may ask."""
    tasks: bool = False
    """Whether its tools may become tasks."""


class ListCache:
    """One file for each server, named after what the server is, not only what it is called."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir / "lists"
        self._kept: dict[str, Known] = {}
        """What the files hold, by the slug of the server."""

    def recall(self, server: Server, now: float) -> None:
        """Have a server know what it offered when it was last seen."""
        known = self._kept[server.slug] = self.load(server.config, now)
        server.lists.recall(known.listings, complete=known.complete)
        server.instructions, server.extensions = known.instructions, known.extensions
        server.learned.dies_of_probe = known.dies_of_probe

    def keep(self, server: Server) -> None:
        """Keep what a server offers now, if that is news."""
        known = Known(
            listings=dict(server.listings),
            instructions=server.instructions,
            extensions=server.extensions,
            dies_of_probe=server.learned.dies_of_probe,
            complete=server.lists.complete,
        )
        if known != self._kept.get(server.slug):
            self._kept[server.slug] = known
            self.save(server.config, known)

    def load(self, config: ServerConfig, now: float) -> Known:
        """What is known of the server since it was last seen."""
        path = self._path(config)
        try:
            age_seconds = now - path.stat().st_mtime
            raw = path.read_bytes()
            found = members.members(raw) if len(raw) <= CACHE_BYTES_MAX else {}
            marks = msgspec.json.decode(raw, type=_Marks) if found else _Marks()
            listings = {
                kind: listing
                for kind in Kind
                if (listing := _read(kind, found.get(kind.value), marks)) is not None
            }
        except (OSError, ValueError, RecursionError):
            return Known()
        return Known(
            listings=listings,
            instructions=marks.instructions,
            extensions=declared_extensions(found.get("extensions"), Era.MODERN),
            dies_of_probe=marks.dies_of_probe and age_seconds < PROBE_AGAIN_SECONDS,
            complete=marks.complete,
        )

    def save(self, config: ServerConfig, known: Known) -> None:
        """Keep what is known of the server now."""
        lists = [
            (
                kind.value,
                members.edit(
                    listing.extras,
                    {kind.value: b"[%b]" % b",".join([offer.raw for offer in listing.offers])},
                ),
            )
            for kind, listing in known.listings.items()
        ]
        marks = _Marks(
            instructions=known.instructions,
            dies_of_probe=known.dies_of_probe,
            complete=known.complete,
            asking={
                kind.value: frozenset(offer.native for offer in listing.offers if offer.asks)
                for kind, listing in known.listings.items()
            },
            tasks=Kind.TOOLS in known.listings and known.listings[Kind.TOOLS].tasks,
        )
        lists.append(("extensions", members.join(known.extensions.items())))
        about = members.members(msgspec.json.encode(marks)).items()
        lists += [(name, bytes(raw)) for name, raw in about]
        with suppress(OSError):
            make_private_directory(self._directory)
            self._replace(self._path(config), members.join(lists))

    def _replace(self, path: Path, content: bytes) -> None:
        """Have a file hold this, or what it held before; never a part of either."""
        fd, scratch = tempfile.mkstemp(".tmp", f"{path.stem}-", self._directory)
        try:
            with open(fd, "wb") as file:
                file.write(content)
            os.replace(scratch, path)
        except OSError:
            os.unlink(scratch)
            raise

    def _path(self, config: ServerConfig) -> Path:
        # Of what may be secret, only the names: anybody can read what a file is called.
        settings = sorted([*config.env, *config.headers])
        identity = [config.command, *config.args, config.cwd, config.url, settings]
        digest = hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:16]
        return self._directory / f"{config.slug}-{digest}.json"


def _read(kind: Kind, raw: msgspec.Raw | None, marks: _Marks) -> Listing | None:
    page = None if raw is None else read_page(kind, bytes(raw))
    if page is None:
        return None
    asking = marks.asking.get(kind.value, frozenset())
    offers = [
        msgspec.structs.replace(offer, asks=True) if offer.native in asking else offer
        for offer in page.offers
    ]
    tasks = marks.tasks and kind is Kind.TOOLS
    return Listing(offers=tuple(offers), extras=page.extras, tasks=tasks)
