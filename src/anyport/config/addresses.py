"""Parses hosts, authorities and origins, and tells which of them are loopback.

Hosts are compared in a normalized form and never resolved: a name that is not known to be loopback
counts as reachable by others.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from anyport.config.model import Config, ServerConfig

_NAME: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
_AUTHORITY: Final = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#@]+)")

_HOST_CHARS_MAX: Final = 253  # DNS has no longer names.
_PORT_MAX: Final = 65535
_LOOPBACK_NET: Final = IPv4Network("127.0.0.0/8")
_PORTS: Final = {"http": 80, "https": 443}


class Authority(NamedTuple):
    """Host and port of a URL or a `Host` header; the host is normalized by `host_key`."""

    host: str
    port: int | None


class Origin(NamedTuple):
    """The origin of a web page (RFC 6454)."""

    scheme: str
    host: str
    port: int | None
    """None for the scheme's own port, which browsers leave out."""

    @property
    def is_loopback(self) -> bool:
        return self.scheme in _PORTS and is_loopback(self.host)


def host_key(host: str) -> str | None:
    """A host normalized for comparison; None if it is invalid.

    Case, brackets and the abbreviation of an IPv6 address make no difference. A trailing dot does:
    no ordinary client sends one. An IPv6 zone has no meaning outside the sender (RFC 6874,
    1), and is refused.
    """
    host = host.lower()
    if ":" in host:
        try:
            address = IPv6Address(host.removeprefix("[").removesuffix("]"))
        except AddressValueError:
            return None
        return None if address.scope_id else f"[{address}]"
    return host if len(host) <= _HOST_CHARS_MAX and _NAME.fullmatch(host) else None


def is_loopback(host: str) -> bool:
    """Whether a host is loopback without asking a name server: `localhost`, 127/8, `::1`.

    Other spellings, such as `127.1` or `::ffff:127.0.0.1`, do not count: no client needs them.
    """
    key = host_key(host)
    if key in ("localhost", "[::1]"):
        return True
    try:
        return IPv4Address(key or "") in _LOOPBACK_NET
    except AddressValueError:
        return False


def is_local(server: ServerConfig) -> bool:
    """Whether a server runs on this machine: over stdio, or at a loopback address."""
    if server.url is None:
        return True
    return is_loopback(urlsplit(server.url).hostname or "")


def read_authority(text: str) -> Authority | None:
    """Parse `host` or `host:port`, without user or empty port; IPv6 addresses in brackets."""
    found = _AUTHORITY.fullmatch(text)
    if not found:
        return None
    host = host_key(found[1])
    port = int(found[2]) if found[2] else None
    if host is None or (port or 0) > _PORT_MAX:
        return None
    return Authority(host, port)


def read_origin(text: str) -> Origin | None:
    """Parse `scheme://host` or `scheme://host:port`, without a path; None for `null`, too."""
    found = _ORIGIN.fullmatch(text.lower())
    authority = read_authority(found[2]) if found else None
    if not found or authority is None:
        return None
    port = None if authority.port == _PORTS.get(found[1]) else authority.port
    return Origin(found[1], authority.host, port)


def explain_exposure(config: Config, host: str) -> str | None:
    """Why the gateway refuses to listen on a host: others could reach it without a token."""
    if config.gateway.tokens or is_loopback(host):
        return None
    host_text = host_key(host) or "that address"
    return (
        f"listening on {host_text} would open every server to everyone who can reach this machine: "
        "set gateway.tokens, or listen on 127.0.0.1"
    )
