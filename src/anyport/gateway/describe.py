"""How the gateway presents itself to clients: its name, and its servers' instructions merged."""

from collections.abc import Mapping
from typing import Final

import msgspec

from anyport import __version__
from anyport.config.schema import ProfileConfig
from anyport.protocol.legacy_front import Description

INSTRUCTIONS_CHARACTERS_MAX: Final = 2000
"""Clients cut longer ones; ours end with a whole section instead."""

IDENTITY: Final = msgspec.json.encode({"name": "anyport", "version": __version__})
"""Who we are, to clients and to servers."""


def describe(
    config: ProfileConfig,
    instructions: Mapping[str, str | None],
    extensions: Mapping[str, bytes],
    *,
    transparent: bool,
) -> Description:
    """The gateway's face in one profile; servers in the profile's order."""
    if transparent:
        return Description(IDENTITY, instructions.get(config.servers[0]), extensions)
    return Description(IDENTITY, _merged(config, instructions), extensions)


def _merged(config: ProfileConfig, instructions: Mapping[str, str | None]) -> str | None:
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
    words = "Several MCP servers behind one gateway."
    if config.prefix == "always":
        words += (
            f" Names of tools and prompts begin with their server: server{config.separator}name."
        )
    return words
