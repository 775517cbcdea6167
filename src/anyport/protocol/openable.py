"""Which addresses of a server's choosing a person may be asked to open. Looks nothing up.

A server behind the gateway must not use the person's browser as its hand inside their machine or
their network: what it names must be a page that anybody could open.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from anyport.wire import members

ADDRESS_CHARACTERS_MAX: Final = 8192
"""No browser needs longer ones."""

_PLAIN: Final = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
"""Visible ASCII without the backslash, which browsers read as a slash."""
_NAME: Final = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?")
"""With a top level that is no number: numbers in all their spellings are addresses."""
_INNER: Final = (
    *("local", "localhost", "internal", "intranet", "private"),
    *("corp", "home", "lan", "localdomain", "home.arpa"),
)
"""Ends of names that mean something in one network only (RFC 6762, appendix G, and customary)."""
_LOOPBACK_NAME: Final = "localhost"


def unfit(url: str, *, local: bool) -> str | None:
    """Why a person is not asked to open this; `local` is said of a server on this machine."""
    if len(url) > ADDRESS_CHARACTERS_MAX or not _PLAIN.fullmatch(url):
        return "it is no plain URL"
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return "it is no plain URL"
    if parts.scheme not in ("http", "https") or not host:
        return "it is no web address"
    if "@" in parts.netloc:
        return "it carries a user name"
    address = _address(host)
    if host == _LOOPBACK_NAME or (address is not None and address.is_loopback):
        return None if local else "it leads into this machine"
    if address is not None:
        fit = address.is_global and not address.is_multicast
    else:
        fit = _NAME.fullmatch(host) is not None and not host.endswith(
            tuple(f".{name}" for name in _INNER)
        )
    if not fit:
        return "it leads into a private network"
    return None if parts.scheme == "https" else "it is not https"


def wants_address(method: str, params: bytes | None) -> bool:
    """Whether a question asks somebody to open an address."""
    if method != "elicitation/create" or params is None or params[:1] != b"{":
        return False
    return members.string(members.members(params).get("mode")) == "url"


def unfit_question(method: str, params: bytes | None, *, local: bool) -> str | None:
    """Why a question is not put to anybody: it wants an address opened that is none to open."""
    if params is None or not wants_address(method, params):
        return None
    return unfit(members.string(members.members(params).get("url")) or "", local=local)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if inner is None else inner
