"""Names and addresses that a gateway is reached by, and which of them are this machine alone.

Everything is compared in one form, and nothing is looked up: a name that is not known to be
loopback counts as one that others can reach.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from anyport.config.schema import Config, ServerConfig

_NAME: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
_AUTHORITY: Final = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#@]+)")

_HOST_CHARS_MAX: Final = 253  # DNS has no longer names.
_PORT_MAX: Final = 65535
_LOOPBACK_NET: Final = IPv4Network("127.0.0.0/8")
_PORTS: Final = {"http": 80, "https": 443}


class Authority(NamedTuple):
    """Whom a URL or a `Host` header names: a host in the form of `host_key`, and a port."""

    host: str
    port: int | None


class Origin(NamedTuple):
    """Where a web page comes from."""

    scheme: str
    host: str
    port: int | None
    """None for the scheme's own port, which browsers leave out."""

    @property
    def is_loopback(self) -> bool:
        return self.scheme in _PORTS and is_loopback(self.host)


def host_key(host: str) -> str | None:
    """A host in the form in which hosts are compared; None for what is none.

    Case does not count, nor how an IPv6 address is abbreviated, nor whether it has brackets. A
    trailing dot counts: nobody's client sends it, so whoever does gets no benefit of the doubt.
    An IPv6 zone is none of anybody's business but the sender's (RFC 6874, 1), so it is refused.
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
    """Whether a host is this machine whatever any name server says: `localhost`, 127/8, `::1`.

    No other spelling of these, such as `127.1` or `::ffff:127.0.0.1`: no client needs one.
    """
    key = host_key(host)
    if key in ("localhost", "[::1]"):
        return True
    try:
        return IPv4Address(key or "") in _LOOPBACK_NET
    except AddressValueError:
        return False


def is_local(server: ServerConfig) -> bool:
    """Whether a server runs on this machine: it is started here, or reached by loopback."""
    if server.url is None:
        return True
    return is_loopback(urlsplit(server.url).hostname or "")


def read_authority(text: str) -> Authority | None:
    """`host` or `host:port`, an IPv6 address in brackets; no user, no empty port."""
    found = _AUTHORITY.fullmatch(text)
    if not found:
        return None
    host = host_key(found[1])
    port = int(found[2]) if found[2] else None
    if host is None or (port or 0) > _PORT_MAX:
        return None
    return Authority(host, port)


def read_origin(text: str) -> Origin | None:
    """`scheme://host` or `scheme://host:port`, and nothing after it; None for `null`, too."""
    found = _ORIGIN.fullmatch(text.lower())
    authority = read_authority(found[2]) if found else None
    if not found or authority is None:
        return None
    port = None if authority.port == _PORTS.get(found[1]) else authority.port
    return Origin(found[1], authority.host, port)


def exposure(config: Config, host: str) -> str | None:
    """Why the gateway refuses to listen on a host: others could reach it, and it asks nobody."""
    if config.gateway.tokens or is_loopback(host):
        return None
    shown = host_key(host) or "that address"
    return (
        f"listening on {shown} would open every server to whoever can reach this machine: "
        "set gateway.tokens, or listen on 127.0.0.1"
    )
