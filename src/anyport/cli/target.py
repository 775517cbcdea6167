"""Which running gateway a command asks: from `--url` to the address of a profile.

A gateway may be named by its origin alone, by a profile's URL, or by anything below a path of a
reverse proxy. Nothing is connected here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote

from anyport.cli.ending import WrongUsage
from anyport.cli.options import CONFIG, PROFILE, STATE_DIR, URL, Given
from anyport.upstream.http.place import BadUrl, Place

TOKEN_VARIABLE: Final = "ANYPORT_TOKEN"

_ENDPOINT: Final = re.compile(r"(?P<root>.*)/mcp(?:/(?P<profile>[^/?]+))?/?")
_FIELD_VALUE: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A running gateway, and one of its profiles."""

    place: Place
    """Of the profile's endpoint."""
    root: str
    """The path that the gateway's own pages lie below; empty where it has an origin to itself."""
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.place.origin}{self.place.target}"

    def head(self, verb: str, path: str | None = None, **fields: str) -> bytes:
        """The head of a request: to the endpoint, or to a page of the gateway."""
        lines = [
            f"{verb} {self.place.target if path is None else self.root + path} HTTP/1.1",
            f"Host: {self.place.authority}",
            *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items()),
        ]
        if self.token is not None:
            lines.append(f"Authorization: Bearer {self.token}")
        return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def read_target(given: Given, environ: Mapping[str, str]) -> Target:
    """The gateway that `--url` names.

    Raises:
        WrongUsage: it names none, or other options contradict it.
    """
    assert given.url is not None, "only asked for where there is a URL"
    for option, said in ((CONFIG, given.config), (STATE_DIR, given.state_dir)):
        if said:
            raise WrongUsage(f"{URL.name} asks a gateway that runs: leave out {option.name}")
    token = given.token or environ.get(TOKEN_VARIABLE) or None
    if token is not None and not _FIELD_VALUE.fullmatch(token):
        raise WrongUsage("the token has a character that no bearer token can have")
    try:
        place = Place.parse(given.url if "://" in given.url else f"http://{given.url}")
    except BadUrl as error:
        raise WrongUsage(f"{URL.name}: {error}") from None
    return _aimed(place, given.profile, token)


def _aimed(place: Place, profile: str | None, token: str | None) -> Target:
    found = _ENDPOINT.fullmatch(place.target)
    if found is None and place.target != "/":
        # Some other MCP server, or a gateway behind a path that somebody chose.
        if profile is not None:
            raise WrongUsage(f"with {PROFILE.name}, {URL.name} must end in /mcp or name no path")
        return Target(place=place, root="", token=token)
    root = "" if found is None else found["root"]
    named = None if found is None else found["profile"]
    if named and profile is not None:
        raise WrongUsage(f"{URL.name} names the profile '{named}': leave out {PROFILE.name}")
    endpoint = f"{root}/mcp"
    if named or profile:
        endpoint += f"/{named or quote(profile or '', safe='')}"
    return Target(place=replace(place, target=endpoint), root=root, token=token)
