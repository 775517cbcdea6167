"""How the gateway introduces itself to clients: its name, and merged instructions."""

from collections.abc import Mapping
from typing import Final

import msgspec

from anyport import __version__
from anyport.config.model import ProfileConfig
from anyport.gateway.profile import Profile
from anyport.protocol.adapters.legacy_client import GatewayDescription
from anyport.protocol.capabilities import SERVER_CAPABILITIES

INSTRUCTIONS_CHARACTERS_MAX: Final = 2000
"""Clients truncate longer instructions; these end with a whole section instead."""

IDENTITY: Final = msgspec.json.encode({"name": "anyport", "version": __version__})
"""The gateway's `serverInfo` towards clients, and `clientInfo` towards servers."""


def server_info_of(profile: Profile) -> bytes:
    """The `serverInfo` in a profile's results: the gateway's, or a transparent profile's server's.

    Empty if that server has not introduced itself.
    """
    if not profile.config.transparent:
        return IDENTITY
    (server,) = profile.servers.values()
    return b"" if server.server_info == b"{}" else server.server_info


def describe_gateway(
    config: ProfileConfig,
    instructions: Mapping[str, str | None],
    extensions: Mapping[str, bytes],
    offered: frozenset[str] = SERVER_CAPABILITIES,
    *,
    transparent: bool,
) -> GatewayDescription:
    """What `initialize` and `server/discover` tell about one profile."""
    if transparent:
        return GatewayDescription(
            IDENTITY, instructions.get(config.servers[0]), extensions, offered
        )
    return GatewayDescription(
        IDENTITY, _merge_instructions(config, instructions), extensions, offered
    )


def _merge_instructions(
    config: ProfileConfig, instructions: Mapping[str, str | None]
) -> str | None:
    sections = [f"## {slug}\n{text}" for slug, text in instructions.items() if text]
    if not sections:
        return None
    merged = _preface(config)
    for section in sections:
        if len(merged) + len(section) + 2 > INSTRUCTIONS_CHARACTERS_MAX:
            break
        merged += f"\n\n{section}"
    return merged


def _preface(config: ProfileConfig) -> str:
    text = "Several MCP servers behind one gateway."
    if config.prefix == "always":
        text += (
            f" Names of tools and prompts begin with their server: server{config.separator}name."
        )
    return text
