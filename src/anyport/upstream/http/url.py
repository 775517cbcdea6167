"""URLs of servers and proxies. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}


class BadUrl(ValueError):
    """A URL that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpUrl:
    """A parsed URL."""

    scheme: str
    host: str
    """Without the brackets of an IPv6 address."""
    port: int
    target: str
    """Path and query, as in a request line."""
    proxy: "HttpUrl | None" = None

    @property
    def authority(self) -> str:
        """The value of `Host`: with the port unless it is the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, which a redirect must not change."""
        return f"{self.scheme}://{self.authority}"

    @property
    def secure(self) -> bool:
        return self.scheme == "https"

    @classmethod
    def parse(cls, url: str, *, proxy: str | None = None) -> "HttpUrl":
        """Parse a URL.

        Raises:
            BadUrl: it cannot be used, or holds credentials.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise BadUrl("it is not a URL") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise BadUrl("a URL begins with http:// or https:// and a host")
        if parts.username is not None or parts.password is not None:
            raise BadUrl("a URL must not hold a user or password: use headers")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not target.isascii() or any(char <= " " or char == "\x7f" for char in target):
            raise BadUrl("its path must be ASCII without spaces; escape what is not")
        return cls(
            scheme=parts.scheme,
            host=_ascii_host(parts.hostname),
            port=_PORTS[parts.scheme] if port is None else port,
            target=target,
            proxy=None if proxy is None else cls.parse(proxy),
        )


def _ascii_host(host: str) -> str:
    try:
        plain = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise BadUrl("its host is not a name that can be looked up") from None
    if any(char <= " " or char == "\x7f" for char in plain):
        raise BadUrl("its host must not have spaces")
    return plain


def proxy_from_environment(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy for a URL, according to `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`."""
    given = {name.lower(): value.strip() for name, value in environ.items() if value.strip()}
    parts = urlsplit(url)
    host = parts.hostname or ""
    for left_out in given.get("no_proxy", "").lower().split(","):
        suffix = left_out.strip().partition(":")[0].lstrip(".")
        if suffix == "*" or (suffix and (host == suffix or host.endswith("." + suffix))):
            return None
    return given.get(f"{parts.scheme}_proxy") or given.get("all_proxy")
