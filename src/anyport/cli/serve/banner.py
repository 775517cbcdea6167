"""What `anyport serve` prints once it accepts connections: URLs, and entries for clients."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from anyport import __version__
from anyport.cli.connect.http import TOKEN_VARIABLE
from anyport.cli.setup import WILDCARD_ADDRESSES, origin_url
from anyport.config.model import Config
from anyport.gateway.http_app import default_profile

_BOLD: Final = "1"
_GREEN: Final = "32"
_DIM: Final = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedProfile:
    """A profile and its URL."""

    slug: str
    url: str
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyBanner:
    """The URLs of a gateway that accepts connections."""

    url: str
    profiles: tuple[ServedProfile, ...]
    on_all_addresses: bool
    needs_token: bool

    def report(self, pid: int) -> dict[str, Any]:
        """The document for `--json`."""
        return {
            "url": self.url,
            "profiles": {
                profile.slug: {"url": profile.url, "servers": list(profile.servers)}
                for profile in self.profiles
            },
            "pid": pid,
        }

    def lines(self, *, colour: bool) -> Iterator[str]:
        """The lines for a terminal."""
        paint = _paint if colour else _plain
        suffix = ", on all addresses of this machine" if self.on_all_addresses else ""
        yield f"{paint('anyport', _BOLD)} {__version__} is ready at {paint(self.url, _GREEN)}" + (
            suffix
        )
        yield ""
        slug_width = max(len(profile.slug) for profile in self.profiles)
        url_width = max(len(profile.url) for profile in self.profiles)
        for profile in self.profiles:
            url = paint(profile.url, _GREEN) + " " * (url_width - len(profile.url))
            servers = ", ".join(profile.servers) or "no servers"
            yield f"  {profile.slug.ljust(slug_width)}  {url}  {paint(servers, _DIM)}"
        yield ""
        yield "To add it to a client, use one of these:"
        yield f"  {self._command()}"
        yield f"  {self._entry()}"
        if self.needs_token:
            yield f"The second is for Cursor; other clients may write {TOKEN_VARIABLE} differently."
        yield ""
        yield paint("Press Ctrl-C to stop.", _DIM)

    def _command(self) -> str:
        words = ["claude", "mcp", "add", "--transport", "http", "anyport", self.profiles[0].url]
        if not self.needs_token:
            return shlex.join(words)
        return f'{shlex.join(words)} --header "Authorization: Bearer ${TOKEN_VARIABLE}"'

    def _entry(self) -> str:
        entry: dict[str, Any] = {"type": "http", "url": self.profiles[0].url}
        if self.needs_token:
            entry["headers"] = {"Authorization": f"Bearer ${{env:{TOKEN_VARIABLE}}}"}
        return f'"mcpServers": {{ "anyport": {json.dumps(entry)} }}'


def make_banner(config: Config, host: str, port: int) -> ReadyBanner:
    """The banner of a gateway that listens at this address."""
    reachable_host = WILDCARD_ADDRESSES.get(host, host)
    if host in WILDCARD_ADDRESSES and config.gateway.allowed_hosts:
        reachable_host = config.gateway.allowed_hosts[0].strip("[]")
    url = origin_url(reachable_host, port)
    main = default_profile(config)
    profiles = [
        ServedProfile(
            slug=slug,
            url=f"{url}/mcp" if slug == main else f"{url}/mcp/{slug}",
            servers=profile.servers,
        )
        for slug, profile in config.profiles.items()
    ]
    profiles.sort(key=lambda profile: profile.slug != main)
    return ReadyBanner(
        url=url,
        profiles=tuple(profiles),
        on_all_addresses=host in WILDCARD_ADDRESSES,
        needs_token=bool(config.gateway.tokens),
    )


def _paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m"


def _plain(text: str, style: str) -> str:
    return text
