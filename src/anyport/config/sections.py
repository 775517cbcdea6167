"""The gateway's own section and the profiles, from located values to frozen types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast, get_args

from anyport.config import expect
from anyport.config.address import host_key, read_authority, read_origin
from anyport.config.document import Spot
from anyport.config.faults import Faults, shown, suggestion
from anyport.config.schema import (
    Capture,
    ErrorStyle,
    GatewayConfig,
    HooksMatch,
    Prefix,
    ProfileConfig,
    Separator,
)
from anyport.config.slug import is_slug, slugify
from anyport.config.tokens import read_tokens

GATEWAY_KEYS: Final = (
    "listen",
    "listSeconds",
    "tokens",
    "allowedHosts",
    "allowedOrigins",
    "sessionIdleSeconds",
    "sessionsMax",
    "hooksMatch",
    "callsMax",
    "clientCallsMax",
    "bytesMax",
    "watch",
)
PROFILE_KEYS: Final = (
    "servers",
    "prefix",
    "separator",
    "gatewayTools",
    "errors",
    "tools",
    "capture",
)
TOOLS_KEYS: Final = ("allow", "deny")

LIST_SECONDS_MAX: Final = 60.0
"""Clients give up on a list after a minute at the latest."""

SESSION_IDLE_SECONDS_MIN: Final = 1.0
SESSION_IDLE_SECONDS_MAX: Final = 7 * 24 * 3600.0
"""A session that nobody used for a week is forgotten by its client, too."""

CALLS_MAX: Final = 1_000_000
BYTES_MIN: Final = 16 * 1024 * 1024
"""One message of the largest usual size must fit."""
BYTES_MAX: Final = 1024**4

SESSIONS_MAX: Final = 1_000_000
"""What `sessionsMax` can be at most: a gateway runs out of memory before it runs out of these."""


def gateway(keys: Mapping[str, Spot], environ: Mapping[str, str], faults: Faults) -> GatewayConfig:
    """The gateway's section; worthless when it added to the faults."""
    readers: Mapping[str, tuple[str, Callable[[Spot, Faults], Any]]] = {
        "listen": ("listen", _listen),
        "listSeconds": ("list_seconds", _LIST_SECONDS),
        "tokens": ("tokens", lambda spot, faults: read_tokens(spot, environ, faults)),
        "allowedHosts": ("allowed_hosts", _hosts),
        "allowedOrigins": ("allowed_origins", _origins),
        "sessionIdleSeconds": ("session_idle_seconds", _IDLE_SECONDS),
        "sessionsMax": ("sessions_max", _SESSIONS),
        "hooksMatch": ("hooks_match", _HOOKS_MATCH),
        "callsMax": ("calls_max", _CALLS),
        "clientCallsMax": ("client_calls_max", _CALLS),
        "bytesMax": ("bytes_max", _BYTES),
        "watch": ("watch", expect.boolean),
    }
    found = {
        field: read(keys[key], faults) for key, (field, read) in readers.items() if key in keys
    }
    said = {field: value for field, value in found.items() if value is not None}
    return replace(GatewayConfig(), **said)


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
        capture=cast("Capture | None", _choice(keys, "capture", get_args(Capture), faults)),
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
    found = read_authority(listen)
    if found is None or found.port is None:
        hint = "such as 127.0.0.1:8640 or [::1]:8640"
        faults.add(spot.fault(f"{spot.name} must be host:port", hint))
        return None
    return listen


def _hosts(spot: Spot, faults: Faults) -> tuple[str, ...] | None:
    """Host names and addresses, each in the form in which they are compared."""
    hosts = expect.texts(spot, faults)
    if hosts is None:
        return None
    keys = [host_key(host) for host in hosts]
    for element in spot.elements():
        if isinstance(element.value, str) and host_key(element.value) is None:
            hint = "such as gateway.example.com, without scheme and port; name each one"
            faults.add(element.fault(f"{element.name} must be the name of a host", hint))
    return tuple(dict.fromkeys(key for key in keys if key is not None))


def _origins(spot: Spot, faults: Faults) -> tuple[str, ...] | None:
    origins = expect.texts(spot, faults)
    for element in spot.elements() if origins is not None else ():
        if isinstance(element.value, str) and read_origin(element.value) is None:
            hint = "such as https://app.example.com, without a path; name each one"
            faults.add(element.fault(f"{element.name} must be the origin of a web page", hint))
    return origins


_LIST_SECONDS: Final = partial(expect.number, low=0, high=LIST_SECONDS_MAX)
_IDLE_SECONDS: Final = partial(
    expect.number, low=SESSION_IDLE_SECONDS_MIN, high=SESSION_IDLE_SECONDS_MAX
)
_SESSIONS: Final = partial(expect.whole, low=1, high=SESSIONS_MAX)
_CALLS: Final = partial(expect.whole, low=1, high=CALLS_MAX)
_BYTES: Final = partial(expect.whole, low=BYTES_MIN, high=BYTES_MAX)
_HOOKS_MATCH: Final = partial(expect.choice, valid=get_args(HooksMatch))
