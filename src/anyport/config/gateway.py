"""The `[gateway]` section and the profiles."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast, get_args

from anyport.config import values
from anyport.config.addresses import host_key, read_authority, read_origin
from anyport.config.document import ConfigNode
from anyport.config.faults import ConfigFaults, quote_name, suggest
from anyport.config.model import (
    Capture,
    ErrorStyle,
    GatewayConfig,
    HooksMatch,
    Prefix,
    ProfileConfig,
    Separator,
    Token,
)
from anyport.config.references import resolve_references
from anyport.config.slugs import is_slug, slugify

# Access tokens of clients.
#
# Only the digest of a token is kept, and no fault quotes one. A token that does not resolve is a
# fault: a gateway must not run unprotected because a variable is not set.

TOKEN_CHARS_MIN: Final = 16
"""Shorter tokens can be guessed; they are accepted with a warning."""

HASH_PREFIX: Final = "sha256:"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{64}")

# RFC 6750, 2.1: a token is a b64token, which has no colon, so `sha256:` cannot start one.
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def read_tokens(
    node: ConfigNode, environ: Mapping[str, str], faults: ConfigFaults
) -> tuple[Token, ...]:
    """Read the tokens of a table. The result is unusable if it adds faults."""
    if not values.check_table(node, faults):
        return ()
    names: dict[bytes, str] = {}
    for name, member in node.items():
        if not _NAME.fullmatch(name):
            message = f"{quote_name(name)} cannot be the name of a token"
            faults.add(member.key_fault(message, "use letters, digits and . _ @ -"))
            continue
        digest = _digest(member, environ, faults)
        if digest in names:
            message = f"the tokens {names[digest]} and {name} are the same"
            faults.add(member.fault(message, "give each its own, or keep one"))
        elif digest is not None:
            names[digest] = name
    if not any(value is not None for value in node.value.values()):
        # The key means that access should be restricted; an empty table would leave it open.
        faults.add(node.fault(f"{node.name} has no token", "add one, or remove the key"))
    return tuple(Token(name=name, digest=digest) for digest, name in names.items())


def _digest(node: ConfigNode, environ: Mapping[str, str], faults: ConfigFaults) -> bytes | None:
    written = values.read_text(node, faults)
    if written is None:
        return None
    resolved = resolve_references(written, environ)
    for fault in resolved.faults:
        faults.add(node.fault(f"{node.name} {fault}", "the gateway does not start without it"))
    if resolved.faults:
        return None
    value = resolved.value
    if value.startswith(HASH_PREFIX):
        return _read_digest(value.removeprefix(HASH_PREFIX), node, faults)
    if not _BEARER.fullmatch(value):
        hint = "use letters, digits and - . _ ~ + /"
        faults.add(node.fault(f"{node.name} is empty or has a character no token can have", hint))
        return None
    if not resolved.secrets:
        hint = "prefer ${env:NAME}, or sha256: and the token's SHA-256 in hexadecimal"
        faults.warn(node.fault(f"{node.name} is in the file as plain text", hint))
    if len(value) < TOKEN_CHARS_MIN:
        hint = f"use at least {TOKEN_CHARS_MIN} random characters"
        faults.warn(node.fault(f"{node.name} is short enough to be guessed", hint))
    return hashlib.sha256(value.encode("ascii")).digest()


def _read_digest(digits: str, node: ConfigNode, faults: ConfigFaults) -> bytes | None:
    if _DIGEST.fullmatch(digits):
        return bytes.fromhex(digits)
    hint = "such as the output of: printf %s TOKEN | sha256sum"
    faults.add(node.fault(f"{node.name} must have 64 hexadecimal digits after {HASH_PREFIX}", hint))
    return None


GATEWAY_KEYS: Final = (
    "listen",
    "listSeconds",
    "tokens",
    "allowedHosts",
    "allowedOrigins",
    "sessionIdleSeconds",
    "sessionsMax",
    "clientSessionsMax",
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
    "transparent",
)
TOOLS_KEYS: Final = ("allow", "deny")

LIST_SECONDS_MAX: Final = 60.0
"""Clients give up on a list after a minute at the latest."""

SESSION_IDLE_SECONDS_MIN: Final = 1.0
SESSION_IDLE_SECONDS_MAX: Final = 7 * 24 * 3600.0
"""After a week, the client has forgotten the session, too."""

CALLS_MAX: Final = 1_000_000
BYTES_MIN: Final = 16 * 1024 * 1024
"""One message of the largest usual size must fit."""
BYTES_MAX: Final = 1024**4

SESSIONS_MAX: Final = 1_000_000
"""The highest `sessionsMax`: a gateway runs out of memory before that."""


def read_gateway(
    keys: Mapping[str, ConfigNode], environ: Mapping[str, str], faults: ConfigFaults
) -> GatewayConfig:
    """Read the section. The result is unusable if it adds faults."""
    readers: Mapping[str, tuple[str, Callable[[ConfigNode, ConfigFaults], Any]]] = {
        "listen": ("listen", _listen),
        "listSeconds": ("list_seconds", _LIST_SECONDS),
        "tokens": ("tokens", lambda node, faults: read_tokens(node, environ, faults)),
        "allowedHosts": ("allowed_hosts", _hosts),
        "allowedOrigins": ("allowed_origins", _origins),
        "sessionIdleSeconds": ("session_idle_seconds", _IDLE_SECONDS),
        "sessionsMax": ("sessions_max", _SESSIONS),
        "clientSessionsMax": ("client_sessions_max", _SESSIONS),
        "hooksMatch": ("hooks_match", _HOOKS_MATCH),
        "callsMax": ("calls_max", _CALLS),
        "clientCallsMax": ("client_calls_max", _CALLS),
        "bytesMax": ("bytes_max", _BYTES),
        "watch": ("watch", values.read_boolean),
    }
    found = {
        field: read(keys[key], faults) for key, (field, read) in readers.items() if key in keys
    }
    settings = {field: value for field, value in found.items() if value is not None}
    return replace(GatewayConfig(), **settings)


def check_profile_name(name: str, node: ConfigNode, faults: ConfigFaults) -> bool:
    """Whether a name is valid. It is part of a URL that people type, so it is never slugified."""
    if is_slug(name):
        return True
    message = f"{quote_name(name)} cannot be the name of a profile"
    faults.add(node.key_fault(message, f"use {slugify(name)}"))
    return False


def read_profile(
    slug: str,
    keys: Mapping[str, ConfigNode],
    servers: Mapping[str, str] | None,
    faults: ConfigFaults,
) -> ProfileConfig:
    """Read one profile; `servers` maps names and slugs of servers to slugs.

    None for `servers`: a file could not be read, so no server is reported as missing.
    """
    tools: Mapping[str, ConfigNode] = {}
    if "tools" in keys:
        tools = values.read_members(keys["tools"], faults, TOOLS_KEYS)
    gateway_tools: bool | None = None
    if "gatewayTools" in keys:
        gateway_tools = values.read_boolean(keys["gatewayTools"], faults)
    built = ProfileConfig(
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
    if "transparent" not in keys or not values.read_boolean(keys["transparent"], faults):
        return built
    if _contradicts_transparency(built, keys, servers, faults):
        return built
    transparent = built.as_transparent()
    return replace(transparent, errors=built.errors) if "errors" in keys else transparent


def _contradicts_transparency(
    built: ProfileConfig,
    keys: Mapping[str, ConfigNode],
    servers: Mapping[str, str] | None,
    faults: ConfigFaults,
) -> bool:
    """Report every setting that contradicts `transparent`; returns whether there are any."""
    one = "a transparent profile shows one server as it is"
    contradictions = [
        ("prefix", built.prefix != "never", f"{one}: its names have no prefix"),
        ("gatewayTools", built.gateway_tools, f"{one}: there are no tools of the gateway"),
    ]
    wrong = [
        keys[key].fault(message, f"leave out {key}, or transparent")
        for key, contradicts, message in contradictions
        if key in keys and contradicts
    ]
    if built.deny or built.allow != ("*",):
        message = f"{one}: no tool can be left out"
        wrong.append(keys["tools"].fault(message, "leave out tools, or transparent"))
    number = len(built.servers)
    if servers is not None and number != 1:
        message = f"{one}, and this one has {number or 'none'}"
        wrong.append(keys["transparent"].fault(message, "name one server under servers"))
    for fault in wrong:
        faults.add(fault)
    return bool(wrong)


def _servers(
    node: ConfigNode | None, known: Mapping[str, str] | None, faults: ConfigFaults
) -> tuple[str, ...]:
    if node is None:
        return tuple(dict.fromkeys(known.values())) if known else ()
    if values.read_texts(node, faults) is None or known is None:
        return ()
    chosen: list[str] = []
    for element in node.elements():
        name = element.value
        if not isinstance(name, str):
            continue  # Reported by read_texts.
        if name in known:
            chosen.append(known[name])
        else:
            hint = suggest(name, known) if known else "no server is defined"
            faults.add(element.fault(f"there is no server {quote_name(name)}", hint))
    return tuple(dict.fromkeys(chosen))


def _globs(
    tools: Mapping[str, ConfigNode], key: str, default: tuple[str, ...], faults: ConfigFaults
) -> tuple[str, ...]:
    globs = values.read_texts(tools[key], faults) if key in tools else None
    return default if globs is None else globs


def _choice(
    keys: Mapping[str, ConfigNode], key: str, valid: tuple[str, ...], faults: ConfigFaults
) -> str | None:
    return values.read_choice(keys[key], faults, valid) if key in keys else None


def _listen(node: ConfigNode, faults: ConfigFaults) -> str | None:
    listen = values.read_text(node, faults)
    if listen is None:
        return None
    found = read_authority(listen)
    if found is None or found.port is None:
        hint = "such as 127.0.0.1:8640 or [::1]:8640"
        faults.add(node.fault(f"{node.name} must be host:port", hint))
        return None
    return listen


def _hosts(node: ConfigNode, faults: ConfigFaults) -> tuple[str, ...] | None:
    """Host names and addresses, normalized for comparison."""
    hosts = values.read_texts(node, faults)
    if hosts is None:
        return None
    keys = [host_key(host) for host in hosts]
    for element in node.elements():
        if isinstance(element.value, str) and host_key(element.value) is None:
            hint = "such as gateway.example.com, without scheme and port; name each one"
            faults.add(element.fault(f"{element.name} must be the name of a host", hint))
    return tuple(dict.fromkeys(key for key in keys if key is not None))


def _origins(node: ConfigNode, faults: ConfigFaults) -> tuple[str, ...] | None:
    origins = values.read_texts(node, faults)
    for element in node.elements() if origins is not None else ():
        if isinstance(element.value, str) and read_origin(element.value) is None:
            hint = "such as https://app.example.com, without a path; name each one"
            faults.add(element.fault(f"{element.name} must be the origin of a web page", hint))
    return origins


_LIST_SECONDS: Final = partial(values.read_number, low=0, high=LIST_SECONDS_MAX)
_IDLE_SECONDS: Final = partial(
    values.read_number, low=SESSION_IDLE_SECONDS_MIN, high=SESSION_IDLE_SECONDS_MAX
)
_SESSIONS: Final = partial(values.read_integer, low=1, high=SESSIONS_MAX)
_CALLS: Final = partial(values.read_integer, low=1, high=CALLS_MAX)
_BYTES: Final = partial(values.read_integer, low=BYTES_MIN, high=BYTES_MAX)
_HOOKS_MATCH: Final = partial(values.read_choice, valid=get_args(HooksMatch))
