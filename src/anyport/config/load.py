"""Files to a configuration, or to every fault in them.

Several files are laid over one another, the later ones on top. A client's own file is taken as
it is: its other settings are left alone, its servers are read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from anyport.config import expect, sections
from anyport.config.document import Document, Spot, read
from anyport.config.entry import Draft, draft
from anyport.config.faults import Fault, Faults, nearest, shown
from anyport.config.schema import (
    DEFAULT_PROFILE,
    Config,
    GatewayConfig,
    ProfileConfig,
    ServerConfig,
)
from anyport.config.server import build

OUR_STEM: Final = "anyport"
FILE_NAMES: Final = (f"{OUR_STEM}.toml", f"{OUR_STEM}.json")

CLIENT_ROOTS: Final = ("context_servers", "mcp_servers")
"""Where some clients keep servers among all their other settings."""

SERVER_ROOTS: Final = ("mcpServers", "servers", *CLIENT_ROOTS)
OUR_KEYS: Final = ("gateway", "mcpServers", "profiles")

MISSPELLING_MIN: Final = 0.8
"""In a client's file a key this near to one of ours is a slip, not a setting of the client."""


def find(cwd: Path, user_dir: Path) -> Path | None:
    """The configuration of this directory, or else the user's own."""
    places = (folder / name for folder in (cwd, user_dir) for name in FILE_NAMES)
    return next((place for place in places if place.is_file()), None)


def load(paths: Sequence[Path], environ: Mapping[str, str]) -> Config:
    """The configuration that these files make together.

    Raises:
        ConfigError: With every fault of every file.
    """
    faults = Faults()
    layers = _Layers()
    for path in paths:
        document = read(path)
        if isinstance(document, Fault):
            layers.complete = False
            faults.add(document)
        else:
            _lay(document, layers, environ, faults)
    config = _built(layers, tuple(str(path) for path in paths), environ, faults)
    faults.raise_any()
    return config


def demo_config() -> Config:
    """What runs where nothing is configured: a server that needs nothing installed."""
    slug = "demo"
    server = ServerConfig(
        slug=slug,
        name=slug,
        command=sys.executable,
        args=("-m", "anyport", "demo-server"),
        transport="stdio",
    )
    return Config(
        gateway=GatewayConfig(),
        servers=MappingProxyType({slug: server}),
        profiles=MappingProxyType(_default_profile((slug,))),
    )


@dataclass(slots=True, kw_only=True)
class _Layers:
    """What the files read so far say, key by key."""

    gateway: dict[str, Spot] = field(default_factory=dict)
    drafts: dict[str, Draft] = field(default_factory=dict)
    profiles: dict[str, dict[str, Spot]] = field(default_factory=dict)
    complete: bool = True
    """False once a file could not be read: then what seems missing may stand there."""


def _lay(document: Document, layers: _Layers, environ: Mapping[str, str], faults: Faults) -> None:
    ours = _is_ours(document)
    _check_top(document, ours, faults)
    for key, spot in document.root.items():
        if key in SERVER_ROOTS and expect.table(spot, faults):
            for name, entry in spot.items():
                made = draft(name, entry, ours=ours, environ=environ, faults=faults)
                if made is not None:
                    _lay_server(made, layers, faults)
        elif key == "gateway" and ours:
            layers.gateway |= expect.members(spot, faults, sections.GATEWAY_KEYS)
        elif key == "profiles" and ours and expect.table(spot, faults):
            for name, profile in spot.items():
                if sections.check_profile_name(name, profile, faults):
                    members = expect.members(profile, faults, sections.PROFILE_KEYS)
                    layers.profiles.setdefault(name, {}).update(members)


def _is_ours(document: Document) -> bool:
    """Whether every key must be one of ours. Some clients have profiles of their own."""
    root = document.parsed.value
    clients = any(key in root for key in CLIENT_ROOTS)
    named = document.file.stem == OUR_STEM
    return named or "gateway" in root or ("profiles" in root and not clients)


def _check_top(document: Document, ours: bool, faults: Faults) -> None:
    keys = dict(document.root.items())
    if ours:
        for key, spot in keys.items():
            if key not in (*OUR_KEYS, *SERVER_ROOTS, "$schema"):
                expect.unknown(key, spot, faults, OUR_KEYS)
        return
    if any(key in keys for key in CLIENT_ROOTS):
        return
    slips = 0
    for key, spot in keys.items():
        meant = None if key in SERVER_ROOTS else nearest(key, OUR_KEYS, at_least=MISSPELLING_MIN)
        if meant:
            slips += 1
            faults.add(spot.key_fault(f"unknown key {shown(key)}", f"did you mean {meant}?"))
    if keys and not slips and not any(key in keys for key in SERVER_ROOTS):
        hint = "servers are defined under mcpServers"
        faults.add(document.root.fault("the file defines no servers", hint))


def _lay_server(made: Draft, layers: _Layers, faults: Faults) -> None:
    earlier = layers.drafts.get(made.slug)
    if earlier is None:
        layers.drafts[made.slug] = made
        return
    same_file = earlier.origin.document is made.origin.document
    if not same_file and made.name in (earlier.name, made.slug):
        layers.drafts[made.slug] = made.laid_over(earlier)
        return
    faults.add(
        made.origin.key_fault(
            f"servers {shown(earlier.name)} and {shown(made.name)} both become '{made.slug}'",
            "rename one of them",
        )
    )


def _built(
    layers: _Layers, sources: tuple[str, ...], environ: Mapping[str, str], faults: Faults
) -> Config:
    drafts = layers.drafts
    servers = {slug: build(made, environ, faults) for slug, made in drafts.items()}
    renamed = {made.name: slug for slug, made in drafts.items() if made.name != slug}
    known = {slug: slug for slug in drafts} | renamed if layers.complete else None
    profiles = {
        slug: sections.profile(slug, keys, known, faults) for slug, keys in layers.profiles.items()
    }
    gateway = sections.gateway(layers.gateway, environ, faults)
    return Config(
        gateway=gateway,
        servers=MappingProxyType(servers),
        profiles=MappingProxyType(profiles or _default_profile(tuple(servers))),
        sources=sources,
        renamed=MappingProxyType(renamed),
        warnings=faults.warnings,
    )


def _default_profile(servers: tuple[str, ...]) -> dict[str, ProfileConfig]:
    return {DEFAULT_PROFILE: ProfileConfig(slug=DEFAULT_PROFILE, servers=servers)}
