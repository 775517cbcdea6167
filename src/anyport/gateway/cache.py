"""The last known lists of every server, kept between runs.

A server that is slow to start or down today still shows what it offered yesterday. A cache that
cannot be read or written is no reason to fail: it is only a head start.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from anyport.config.schema import ServerConfig
from anyport.protocol.extension import declared_extensions
from anyport.protocol.method import Kind
from anyport.protocol.revision import Era
from anyport.record.journal import make_private_directory
from anyport.routing.offers import Listing, read_page
from anyport.upstream.server import Server
from anyport.wire import members

_NULL: Final = msgspec.Raw(b"null")

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


class ListCache:
    """One file for each server, named after what the server is, not only what it is called."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir / "lists"
        self._kept: dict[str, Known] = {}
        """What the files hold, by the slug of the server."""

    def recall(self, server: Server, now: float) -> None:
        """Have a server know what it offered when it was last seen."""
        known = self._kept[server.slug] = self.load(server.config, now)
        server.listings.update(known.listings)
        server.instructions, server.extensions = known.instructions, known.extensions
        server.learned.dies_of_probe = known.dies_of_probe

    def keep(self, server: Server) -> None:
        """Keep what a server offers now, if that is news."""
        known = Known(
            listings=dict(server.listings),
            instructions=server.instructions,
            extensions=server.extensions,
            dies_of_probe=server.learned.dies_of_probe,
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
            instructions = msgspec.json.decode(found.get("instructions", _NULL), type=str | None)
        except (OSError, msgspec.DecodeError):
            return Known()
        listings: dict[Kind, Listing] = {}
        for kind in Kind:
            page = read_page(kind, bytes(found.get(kind.value, _NULL)))
            if page is not None:
                listings[kind] = Listing(offers=page.offers, extras=page.extras)
        dies = bytes(found.get("diesOfProbe", _NULL)) == b"true"
        return Known(
            listings=listings,
            instructions=instructions,
            extensions=declared_extensions(found.get("extensions"), Era.MODERN),
            dies_of_probe=dies and age_seconds < PROBE_AGAIN_SECONDS,
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
        lists.append(("instructions", msgspec.json.encode(known.instructions)))
        lists.append(("extensions", members.join(known.extensions.items())))
        lists.append(("diesOfProbe", msgspec.json.encode(known.dies_of_probe)))
        path = self._path(config)
        scratch = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            make_private_directory(self._directory)
            scratch.touch(mode=0o600)
            scratch.write_bytes(members.join(lists))
            scratch.replace(path)
        except OSError:
            return

    def _path(self, config: ServerConfig) -> Path:
        identity = [config.command, *config.args, config.cwd, config.url]
        digest = hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:16]
        return self._directory / f"{config.slug}-{digest}.json"
