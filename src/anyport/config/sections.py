"""The gateway's own section and the profiles, from located values to frozen types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast, get_args

from anyport.config import expect
from anyport.config.document import Spot
from anyport.config.faults import Faults, shown, suggestion
from anyport.config.schema import ErrorStyle, GatewayConfig, Prefix, ProfileConfig, Separator
from anyport.config.slug import is_slug, slugify

GATEWAY_KEYS: Final = ("listen", "listSeconds")
PROFILE_KEYS: Final = ("servers", "prefix", "separator", "gatewayTools", "errors", "tools")
TOOLS_KEYS: Final = ("allow", "deny")

LIST_SECONDS_MAX: Final = 60.0
"""Clients give up on a list after a minute at the latest."""

_LISTEN: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):(\d{1,5})", re.ASCII)
_PORT_MAX: Final = 65535


def gateway(keys: Mapping[str, Spot], faults: Faults) -> GatewayConfig:
    defaults = GatewayConfig()
    listen: str | None = None
    list_seconds: float | None = None
    if "listen" in keys:
        listen = _listen(keys["listen"], faults)
    if "listSeconds" in keys:
        list_seconds = expect.number(keys["listSeconds"], faults, low=0, high=LIST_SECONDS_MAX)
    return GatewayConfig(
        listen=defaults.listen if listen is None else listen,
        list_seconds=defaults.list_seconds if list_seconds is None else list_seconds,
    )


def check_profile_name(name: str, spot: Spot, faults: Faults) -> bool:
    """A profile's name is part of an address people type, so it is never changed for them."""
    if is_slug(name):
        return True
    message = f"{shown(name)} cannot be the name of a profile"
    faults.add(spot.key_fault(message, f"use {slugify(name)}"))
    return False


def profile(
    slug: str, keys: Mapping[str, Spot], servers: Mapping[str, str] | None, faults: Faults
) -> ProfileConfig:
    """One profile; `servers` maps every way of naming a server to its slug.

    Without `servers` it is not known which there are, and none is called missing.
    """
    tools: Mapping[str, Spot] = {}
    if "tools" in keys:
        tools = expect.members(keys["tools"], faults, TOOLS_KEYS)
    gateway_tools: bool | None = None
    if "gatewayTools" in keys:
        gateway_tools = expect.boolean(keys["gatewayTools"], faults)
    return ProfileConfig(
        slug=slug,
        servers=_servers(keys.get("servers"), servers, faults),
        prefix=cast(Prefix, _choice(keys, "prefix", get_args(Prefix), faults) or "always"),
        separator=cast(Separator, _choice(keys, "separator", get_args(Separator), faults) or "__"),
        gateway_tools=gateway_tools is not False,
        errors=cast(ErrorStyle, _choice(keys, "errors", get_args(ErrorStyle), faults) or "context"),
        allow=_globs(tools, "allow", ("*",), faults),
        deny=_globs(tools, "deny", (), faults),
    )


def _servers(spot: Spot | None, known: Mapping[str, str] | None, faults: Faults) -> tuple[str, ...]:
    if spot is None:
        return tuple(dict.fromkeys(known.values())) if known else ()
    if expect.texts(spot, faults) is None or known is None:
        return ()
    chosen: list[str] = []
    for element in spot.elements():
        name = element.value
        if not isinstance(name, str):
            continue  # Told above.
        if name in known:
            chosen.append(known[name])
        else:
            hint = suggestion(name, known) if known else "no server is defined"
            faults.add(element.fault(f"there is no server {shown(name)}", hint))
    return tuple(dict.fromkeys(chosen))


def _globs(
    tools: Mapping[str, Spot], key: str, default: tuple[str, ...], faults: Faults
) -> tuple[str, ...]:
    globs = expect.texts(tools[key], faults) if key in tools else None
    return default if globs is None else globs


def _choice(
    keys: Mapping[str, Spot], key: str, valid: tuple[str, ...], faults: Faults
) -> str | None:
    return expect.choice(keys[key], faults, valid) if key in keys else None


def _listen(spot: Spot, faults: Faults) -> str | None:
    listen = expect.text(spot, faults)
    if listen is None:
        return None
    found = _LISTEN.fullmatch(listen)
    if not found or int(found[2]) > _PORT_MAX:
        hint = "such as 127.0.0.1:8640 or [::1]:8640"
        faults.add(spot.fault(f"{spot.name} must be host:port", hint))
        return None
    return listen
