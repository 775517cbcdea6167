"""Files to a configuration, or to every fault in them.

Several files are laid over one another, the later ones on top. A client's own file is taken as
it is: its other settings are left alone, its servers are read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from anyport.config import expect, record, sections, telemetry
from anyport.config.document import Document, Spot, read
from anyport.config.entry import Draft, draft
from anyport.config.faults import Fault, Faults, nearest, shown
from anyport.config.hooks import Judge, Surroundings, build_hooks, lay_hooks
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
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "gateway": sections.GATEWAY_KEYS,
    "record": record.RECORD_KEYS,
    "telemetry": telemetry.TELEMETRY_KEYS,
}
"""Tables of ours that stand once, and their keys."""
SHARED: Final = ("telemetry", "hooks")
"""Those that some clients have, too: no file is known as ours by one."""
OUR_KEYS: Final = (*SECTIONS, "mcpServers", "profiles", "hooks")

MISSPELLING_MIN: Final = 0.8
"""In a client's file a key this near to one of ours is a slip, not a setting of the client."""


def find(cwd: Path, user_dir: Path) -> Path | None:
    """The configuration of this directory, or else the user's own."""
    places = (folder / name for folder in (cwd, user_dir) for name in FILE_NAMES)
    return next((place for place in places if place.is_file()), None)


def load(paths: Sequence[Path], environ: Mapping[str, str], judge: Judge | None = None) -> Config:
    """The configuration that these files make together; `judge` knows the filters of hooks.

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
    config = _built(layers, environ, judge, faults)
    faults.raise_any()
    return replace(config, sources=tuple(map(str, paths)), warnings=faults.warnings)


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

    sections: dict[str, dict[str, Spot]] = field(
        default_factory=lambda: {key: {} for key in SECTIONS}
    )
    drafts: dict[str, Draft] = field(default_factory=dict)
    profiles: dict[str, dict[str, Spot]] = field(default_factory=dict)
    hooks: dict[str, Spot] = field(default_factory=dict)
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
        elif key in SECTIONS and ours:
            layers.sections[key] |= expect.members(spot, faults, SECTIONS[key])
        elif key == "profiles" and ours and expect.table(spot, faults):
            for name, profile in spot.items():
                if sections.check_profile_name(name, profile, faults):
                    members = expect.members(profile, faults, sections.PROFILE_KEYS)
                    layers.profiles.setdefault(name, {}).update(members)
        elif key == "hooks" and ours:
            lay_hooks(spot, layers.hooks, faults)


def _is_ours(document: Document) -> bool:
    """Whether every key must be one of ours. Some clients have profiles of their own."""
    root = document.parsed.value
    clients = any(key in root for key in CLIENT_ROOTS)
    named = document.file.stem == OUR_STEM or any(
        key in root for key in SECTIONS if key not in SHARED
    )
    # The hooks of clients are a table; ours are an array.
    hooks = isinstance(root.get("hooks"), list)
    return named or (("profiles" in root or hooks) and not clients)


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
        known = key in SERVER_ROOTS or key in SHARED
        meant = None if known else nearest(key, OUR_KEYS, at_least=MISSPELLING_MIN)
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
    layers: _Layers, environ: Mapping[str, str], judge: Judge | None, faults: Faults
) -> Config:
    drafts = layers.drafts
    servers = {slug: build(made, environ, faults) for slug, made in drafts.items()}
    renamed = {made.name: slug for slug, made in drafts.items() if made.name != slug}
    known = {slug: slug for slug in drafts} | renamed if layers.complete else None
    profiles = {
        slug: sections.profile(slug, keys, known, faults) for slug, keys in layers.profiles.items()
    } or _default_profile(tuple(servers))
    around = Surroundings(environ=environ, servers=known, profiles=profiles, judge=judge)
    return Config(
        gateway=sections.gateway(layers.sections["gateway"], environ, faults),
        record=record.record(layers.sections["record"], faults),
        telemetry=telemetry.telemetry(layers.sections["telemetry"], environ, faults),
        servers=MappingProxyType(servers),
        profiles=MappingProxyType(profiles),
        hooks=build_hooks(layers.hooks, around, faults),
        renamed=MappingProxyType(renamed),
    )


def _default_profile(servers: tuple[str, ...]) -> dict[str, ProfileConfig]:
    return {DEFAULT_PROFILE: ProfileConfig(slug=DEFAULT_PROFILE, servers=servers)}
