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
from anyport.protocol.method import Kind
from anyport.record.journal import make_private_directory
from anyport.routing.offers import Listing, read_page
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
    dies_of_probe: bool = False


class ListCache:
    """One file for each server, named after what the server is, not only what it is called."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir / "lists"

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
