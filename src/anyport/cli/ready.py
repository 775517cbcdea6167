"""What a gateway says once it accepts connections: where it is, and what clients need to know.

Made from the configuration and the address in use; prints nothing itself.
"""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from anyport import __version__
from anyport.cli.target import TOKEN_VARIABLE
from anyport.config.schema import Config, UnknownProfile

EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that nobody can connect to, and one that reaches them from here."""

_BOLD: Final = "1"
_GREEN: Final = "32"
_DIM: Final = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One profile, as clients reach it."""

    slug: str
    url: str
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A gateway that accepts connections."""

    url: str
    profiles: tuple[Served, ...]
    everywhere: bool
    """Whether it listens on every address of this machine."""
    guarded: bool
    """Whether clients need a token."""

    def report(self, pid: int) -> dict[str, Any]:
        """For programs."""
        return {
            "url": self.url,
            "profiles": {
                each.slug: {"url": each.url, "servers": list(each.servers)}
                for each in self.profiles
            },
            "pid": pid,
        }

    def lines(self, *, colour: bool) -> Iterator[str]:
        """For people."""
        paint = _paint if colour else _plain
        everywhere = ", on every address of this machine" if self.everywhere else ""
        yield f"{paint('anyport', _BOLD)} {__version__} is ready at {paint(self.url, _GREEN)}" + (
            everywhere
        )
        yield ""
        slugs = max(len(each.slug) for each in self.profiles)
        urls = max(len(each.url) for each in self.profiles)
        for each in self.profiles:
            url = paint(each.url, _GREEN) + " " * (urls - len(each.url))
            servers = ", ".join(each.servers) or "no servers"
            yield f"  {each.slug.ljust(slugs)}  {url}  {paint(servers, _DIM)}"
        yield ""
        yield "To use it, tell your client one of these:"
        yield f"  {self._command()}"
        yield f"  {self._entry()}"
        if self.guarded:
            yield f"The second is for Cursor; other clients may write {TOKEN_VARIABLE} another way."
        yield ""
        yield paint("Ctrl-C stops it.", _DIM)

    def _command(self) -> str:
        words = ["claude", "mcp", "add", "--transport", "http", "anyport", self.profiles[0].url]
        if not self.guarded:
            return shlex.join(words)
        return f'{shlex.join(words)} --header "Authorization: Bearer ${TOKEN_VARIABLE}"'

    def _entry(self) -> str:
        entry: dict[str, Any] = {"type": "http", "url": self.profiles[0].url}
        if self.guarded:
            entry["headers"] = {"Authorization": f"Bearer ${{env:{TOKEN_VARIABLE}}}"}
        return f'"mcpServers": {{ "anyport": {json.dumps(entry)} }}'


def ready(config: Config, host: str, port: int) -> Ready:
    """What there is to say about a gateway that accepts connections at this address."""
    near = EVERYWHERE.get(host, host)
    if host in EVERYWHERE and config.gateway.allowed_hosts:
        near = config.gateway.allowed_hosts[0].strip("[]")
    url = origin(near, port)
    main = main_profile(config)
    served = [
        Served(
            slug=slug,
            url=f"{url}/mcp" if slug == main else f"{url}/mcp/{slug}",
            servers=profile.servers,
        )
        for slug, profile in config.profiles.items()
    ]
    served.sort(key=lambda each: each.slug != main)
    return Ready(
        url=url,
        profiles=tuple(served),
        everywhere=host in EVERYWHERE,
        guarded=bool(config.gateway.tokens),
    )


def origin(host: str, port: int) -> str:
    """Where a gateway is that listens on a host."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def main_profile(config: Config) -> str | None:
    """The profile that is served where none is named; none where nobody can tell which."""
    try:
        return config.profile().slug
    except UnknownProfile:
        return None


def _paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m"


def _plain(text: str, style: str) -> str:
    return text
