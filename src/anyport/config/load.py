"""Loads configuration files, or reports every fault in them.

Later files override earlier ones. From the file of a client only the servers are read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from anyport.config import gateway, record, telemetry, values
from anyport.config.client_entries import ServerDraft, read_entry
from anyport.config.document import ConfigNode, Document, read_document
from anyport.config.faults import ConfigFault, ConfigFaults, find_nearest, quote_name
from anyport.config.hooks import FilterChecker, HookContext, build_hooks, merge_hooks
from anyport.config.model import DEFAULT_PROFILE, Config, GatewayConfig, ProfileConfig, ServerConfig
from anyport.config.servers import build_server

CONFIG_STEM: Final = "anyport"
FILE_NAMES: Final = (f"{CONFIG_STEM}.toml", f"{CONFIG_STEM}.json")

CLIENT_ROOTS: Final = ("context_servers", "mcp_servers")
"""Keys under which some clients keep servers, next to all their other settings."""

SERVER_ROOTS: Final = ("mcpServers", "servers", *CLIENT_ROOTS)
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "gateway": gateway.GATEWAY_KEYS,
    "record": record.RECORD_KEYS,
    "telemetry": telemetry.TELEMETRY_KEYS,
}
"""Anyport's own tables that occur once, and their keys."""
SHARED_SECTIONS: Final = ("telemetry", "hooks")
"""Tables that some clients also have, so that they do not identify a file of Anyport."""
TOP_LEVEL_KEYS: Final = (*SECTIONS, "mcpServers", "profiles", "hooks")

MISSPELLING_MIN: Final = 0.8
"""In a client's file, a key this close to one of Anyport's is a misspelling, not a setting."""


def find_config(cwd: Path, user_dir: Path) -> Path | None:
    """The configuration file in this directory, else the one in the user's directory."""
    candidates = (folder / name for folder in (cwd, user_dir) for name in FILE_NAMES)
    return next((path for path in candidates if path.is_file()), None)


def load(
    paths: Sequence[Path], environ: Mapping[str, str], check_filter: FilterChecker | None = None
) -> Config:
    """Load and merge these files; `check_filter` checks the filters of hooks.

    Raises:
        ConfigError: With all faults of all files.
    """
    faults = ConfigFaults()
    layers = _Layers()
    for path in paths:
        document = read_document(path)
        if isinstance(document, ConfigFault):
            layers.complete = False
            faults.add(document)
        else:
            _merge_document(document, layers, environ, faults)
    config = _build_config(layers, environ, check_filter, faults)
    faults.raise_any()
    return replace(config, sources=tuple(map(str, paths)), warnings=faults.warnings)


def demo_config() -> Config:
    """Configuration used without any file: the built-in demo server."""
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


def config_for_command(command: Sequence[str], config: Config) -> Config:
    """A copy of a configuration with a single server, which a command starts."""
    slug = "server"
    server = ServerConfig(
        slug=slug, name=slug, command=command[0], args=tuple(command[1:]), transport="stdio"
    )
    return replace(
        config,
        servers=MappingProxyType({slug: server}),
        profiles=MappingProxyType(_default_profile((slug,))),
        renamed=MappingProxyType({}),
    )


@dataclass(slots=True, kw_only=True)
class _Layers:
    """The content of the files read so far, key by key."""

    sections: dict[str, dict[str, ConfigNode]] = field(
        default_factory=lambda: {key: {} for key in SECTIONS}
    )
    drafts: dict[str, ServerDraft] = field(default_factory=dict)
    profiles: dict[str, dict[str, ConfigNode]] = field(default_factory=dict)
    hooks: dict[str, ConfigNode] = field(default_factory=dict)
    complete: bool = True
    """False if a file could not be read: a missing server may be defined in it."""


def _merge_document(
    document: Document, layers: _Layers, environ: Mapping[str, str], faults: ConfigFaults
) -> None:
    is_anyport_file = _is_anyport_file(document)
    _check_top_level(document, is_anyport_file, faults)
    for key, node in document.root.items():
        if key in SERVER_ROOTS and values.check_table(node, faults):
            for name, entry in node.items():
                server_draft = read_entry(
                    name, entry, is_anyport_file=is_anyport_file, environ=environ, faults=faults
                )
                if server_draft is not None:
                    _merge_server(server_draft, layers, faults)
        elif key in SECTIONS and is_anyport_file:
            layers.sections[key] |= values.read_members(node, faults, SECTIONS[key])
        elif key == "profiles" and is_anyport_file and values.check_table(node, faults):
            for name, profile in node.items():
                if gateway.check_profile_name(name, profile, faults):
                    members = values.read_members(profile, faults, gateway.PROFILE_KEYS)
                    layers.profiles.setdefault(name, {}).update(members)
        elif key == "hooks" and is_anyport_file:
            merge_hooks(node, layers.hooks, faults)


def _is_anyport_file(document: Document) -> bool:
    """Whether every key must be one of Anyport's. Some clients have profiles of their own."""
    root = document.parsed.value
    clients = any(key in root for key in CLIENT_ROOTS)
    named = document.file.stem == CONFIG_STEM or any(
        key in root for key in SECTIONS if key not in SHARED_SECTIONS
    )
    # The hooks of clients are a table; those of Anyport are an array.
    hooks = isinstance(root.get("hooks"), list)
    return named or (("profiles" in root or hooks) and not clients)


def _check_top_level(document: Document, is_anyport_file: bool, faults: ConfigFaults) -> None:
    keys = dict(document.root.items())
    if is_anyport_file:
        for key, node in keys.items():
            if key not in (*TOP_LEVEL_KEYS, *SERVER_ROOTS, "$schema"):
                values.report_unknown_key(key, node, faults, TOP_LEVEL_KEYS)
        return
    if any(key in keys for key in CLIENT_ROOTS):
        return
    misspellings = 0
    for key, node in keys.items():
        known = key in SERVER_ROOTS or key in SHARED_SECTIONS
        meant = None if known else find_nearest(key, TOP_LEVEL_KEYS, at_least=MISSPELLING_MIN)
        if meant:
            misspellings += 1
            faults.add(node.key_fault(f"unknown key {quote_name(key)}", f"did you mean {meant}?"))
    if keys and not misspellings and not any(key in keys for key in SERVER_ROOTS):
        hint = "servers are defined under mcpServers"
        faults.add(document.root.fault("the file defines no servers", hint))


def _merge_server(server_draft: ServerDraft, layers: _Layers, faults: ConfigFaults) -> None:
    earlier = layers.drafts.get(server_draft.slug)
    if earlier is None:
        layers.drafts[server_draft.slug] = server_draft
        return
    same_file = earlier.origin.document is server_draft.origin.document
    if not same_file and server_draft.name in (earlier.name, server_draft.slug):
        layers.drafts[server_draft.slug] = server_draft.merge_over(earlier)
        return
    faults.add(
        server_draft.origin.key_fault(
            f"servers {quote_name(earlier.name)} and {quote_name(server_draft.name)} "
            f"both become '{server_draft.slug}'",
            "rename one of them",
        )
    )


def _build_config(
    layers: _Layers,
    environ: Mapping[str, str],
    check_filter: FilterChecker | None,
    faults: ConfigFaults,
) -> Config:
    drafts = layers.drafts
    servers = {slug: build_server(made, environ, faults) for slug, made in drafts.items()}
    renamed = {made.name: slug for slug, made in drafts.items() if made.name != slug}
    known = {slug: slug for slug in drafts} | renamed if layers.complete else None
    profiles = {
        slug: gateway.read_profile(slug, keys, known, faults)
        for slug, keys in layers.profiles.items()
    } or _default_profile(tuple(servers))
    hook_context = HookContext(
        environ=environ, servers=known, profiles=profiles, check_filter=check_filter
    )
    return Config(
        gateway=gateway.read_gateway(layers.sections["gateway"], environ, faults),
        record=record.read_record(layers.sections["record"], faults),
        telemetry=telemetry.read_telemetry(layers.sections["telemetry"], environ, faults),
        servers=MappingProxyType(servers),
        profiles=MappingProxyType(profiles),
        hooks=build_hooks(layers.hooks, hook_context, faults),
        renamed=MappingProxyType(renamed),
    )


def _default_profile(servers: tuple[str, ...]) -> dict[str, ProfileConfig]:
    return {DEFAULT_PROFILE: ProfileConfig(slug=DEFAULT_PROFILE, servers=servers)}
