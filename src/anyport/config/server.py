"""From a draft to a server: references resolved, values judged, secrets noted.

What the person who wrote the file must mend is a fault. What depends on the machine, such as a
variable that is not set, leaves the server unresolved and the others alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar, cast, get_args
from urllib.parse import urlsplit

from anyport.config import environment, expect
from anyport.config.address import read_origin
from anyport.config.document import Spot
from anyport.config.entry import Draft
from anyport.config.faults import Faults, shown
from anyport.config.reference import resolve
from anyport.config.schema import (
    MESSAGE_BYTES_DEFAULT,
    REVISIONS,
    Capture,
    Scope,
    ServerConfig,
    Transport,
)
from anyport.config.stamina import stamina

TIMEOUT_SECONDS_DEFAULT: Final = 60.0
TIMEOUT_SECONDS_MIN: Final = 0.1
TIMEOUT_SECONDS_MAX: Final = 3600.0
"""Nobody waits longer for one call; who wrote more meant milliseconds."""

MESSAGE_BYTES_MIN: Final = 64 * 1024
"""Below this the first list of tools would not fit."""
MESSAGE_BYTES_MAX: Final = 256 * 1024 * 1024
"""One message of this size is a heavy load on memory already."""

PROXIES: Final = ("none", "env")
"""What `proxy` can be besides the URL of one; the first is the default."""

PROTOCOLS: Final = ("auto", "modern", "legacy", *REVISIONS)

TRANSPORTS: Final[Mapping[str, Transport]] = {
    "auto": "auto",
    "remote": "auto",
    "stdio": "stdio",
    "local": "stdio",
    "http": "streamable-http",
    "streamablehttp": "streamable-http",
    "sse": "sse",
}
"""All spellings, without case and without `-` and `_`."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

_T = TypeVar("_T")


def build(draft: Draft, environ: Mapping[str, str], faults: Faults) -> ServerConfig:
    """The server a draft describes; worthless when it added to the faults."""
    return _Builder(draft, environ, faults).server()


class _Builder:
    def __init__(self, draft: Draft, environ: Mapping[str, str], faults: Faults) -> None:
        self._draft = draft
        self._keys = draft.keys
        self._environ = environ
        self._faults = faults
        self._unresolved = list(draft.unresolved)
        self._secrets: set[str] = set()
        self._env_file_path: str | None = None

    def server(self) -> ServerConfig:
        self._judge_reach()
        permit_env: tuple[str, ...] = self._read("permitEnv", expect.texts, ())
        env = self._env()
        self._unresolved += environment.refusals(env, permit_env)
        command, cwd, url = self._file_path("command"), self._file_path("cwd"), self._url()
        args, headers = self._args(), self._headers()
        return ServerConfig(
            slug=self._draft.slug,
            name=self._draft.name,
            origin=self._draft.origin.place,
            command=command,
            args=args,
            env=MappingProxyType(env),
            cwd=cwd,
            url=url,
            headers=MappingProxyType(headers),
            proxy=self._proxy(),
            transport=self._transport(),
            protocol=self._read("protocol", _PROTOCOL, "auto"),
            timeout_seconds=self._read("timeout", _TIMEOUT, TIMEOUT_SECONDS_DEFAULT),
            **stamina(self._keys, self._faults),
            scope=cast(Scope, self._read("scope", _SCOPE, "auto")),
            capture=cast("Capture | None", self._read("capture", _CAPTURE, None)),
            disabled=self._read("disabled", expect.boolean, False),
            message_bytes_max=self._read("maxMessageBytes", _MESSAGE_BYTES, MESSAGE_BYTES_DEFAULT),
            permit_env=permit_env,
            env_file=self._env_file_path,
            unresolved=tuple(dict.fromkeys(self._unresolved)),
            secrets=frozenset(self._secrets),
        )

    def _read(self, key: str, read: Callable[[Spot, Faults], _T | None], default: _T) -> _T:
        if key not in self._keys:
            return default
        value = read(self._keys[key], self._faults)
        return default if value is None else value

    def _judge_reach(self) -> None:
        """A server is reached in exactly one way, unless something else excuses it already."""
        origin, name = self._draft.origin, shown(self._draft.name)
        if "command" in self._keys and "url" in self._keys:
            message = f"server {name} has both a command and a url"
            self._faults.add(origin.key_fault(message, "keep one of them"))
        elif "command" not in self._keys and "url" not in self._keys and not self._unresolved:
            message = f"server {name} has neither a command nor a url"
            self._faults.add(origin.key_fault(message, "add one of them"))

    def _file_path(self, key: str) -> str | None:
        """A path as the file means it: `~` is home, and relative is relative to the file.

        A bare command stays bare: it is looked up when the server starts.
        """
        if key not in self._keys:
            return None
        spot = self._keys[key]
        path = self._filled(spot, key)
        if path is None:
            return None
        if path == "~" or path.startswith(("~/", "~\\")):
            path = (self._environ.get("HOME") or os.path.expanduser("~")) + path[1:]
        if key == "cwd" or "/" in path or os.sep in path:
            path = str((spot.file.parent / path).absolute())
        return path

    def _url(self) -> str | None:
        if "url" not in self._keys:
            return None
        spot = self._keys["url"]
        url = self._filled(spot, "url")
        if url is not None:
            self._judge_url(spot, url)
        return url

    def _judge_url(self, spot: Spot, url: str) -> None:
        try:
            parts = urlsplit(url)
            fit = parts.scheme in ("http", "https") and bool(parts.hostname)
            # Reading the port judges it.
            fit = fit and parts.port != 0 and not re.search(r"[\x00-\x20\x7f]", url)
        except ValueError:
            fit = False
        if not fit:
            self._object(spot, "url", "must be an address such as https://example.com/mcp")
        elif parts.username is not None or parts.password is not None:
            self._secrets.update({parts.password or ""} - {""})
            self._object(spot, "url", "must not hold a user or password", "use headers")
        elif not f"{parts.path}{parts.query}".isascii():
            objection = "must have an ASCII path"
            self._object(spot, "url", objection, "escape what is not, such as %C3%A9")

    def _args(self) -> tuple[str, ...]:
        if "args" not in self._keys:
            return ()
        spot = self._keys["args"]
        if not isinstance(spot.value, list):
            expect.texts(spot, self._faults)
            return ()
        return tuple(
            self._expanded(element, f"args[{index}]")
            for index, element in enumerate(spot.elements())
        )

    def _env(self) -> dict[str, str]:
        env = self._env_file()
        self._secrets.update(env.values())
        for name, spot in self._draft.env.items():
            fault = environment.name_fault(name)
            if fault:
                self._faults.add(spot.key_fault(f"{shown(name)} is not possible in env: {fault}"))
                continue
            env[name] = self._expanded(spot, f"env.{name}")
            self._secrets.add(env[name])
        self._secrets.discard("")
        return env

    def _env_file(self) -> dict[str, str]:
        if "envFile" not in self._keys:
            return {}
        path = self._file_path("envFile")
        if path is None:
            return {}
        spot = self._keys["envFile"]
        self._env_file_path = str(spot.file.parent / path)
        found = environment.read_env_file(spot.file.parent / path)
        if isinstance(found, str):
            # What came from a reference may be a secret, even in a path.
            named = spot.value if "${" in spot.value else spot.file.parent / path
            self._unresolved.append(f"envFile {named} {found}")
            return {}
        return found

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, spot in self._draft.headers.items():
            if not _TOKEN.fullmatch(name):
                message = f"{shown(name)} cannot be the name of a header"
                self._faults.add(spot.key_fault(message, "use letters, digits and -"))
                continue
            if name.lower() in (known.lower() for known in headers):
                self._faults.add(spot.key_fault(f"the header {name} is given twice", "keep one"))
            value = self._expanded(spot, f"headers.{name}")
            if not _FIELD_VALUE.fullmatch(value):
                self._object(spot, f"headers.{name}", "has a character no header can carry")
            headers[name] = value
            # "Bearer x": x alone is the secret, and may turn up without the word before it.
            self._secrets.update({value, value.rpartition(" ")[2]} - {""})
        return headers

    def _proxy(self) -> str:
        if "proxy" not in self._keys:
            return PROXIES[0]
        spot = self._keys["proxy"]
        proxy = self._filled(spot, "proxy")
        if proxy is None or proxy in PROXIES:
            return proxy or PROXIES[0]
        origin = read_origin(proxy.removesuffix("/"))
        if origin is None or origin.scheme != "http":
            valid = ", ".join(f'"{option}"' for option in PROXIES)
            self._object(spot, "proxy", f'must be {valid} or "http://host:port"')
        return proxy

    def _transport(self) -> Transport:
        stdio = "command" in self._keys
        if "transport" not in self._keys:
            return "stdio" if stdio else "auto"
        spot = self._keys["transport"]
        spelled = expect.text(spot, self._faults)
        if spelled is None:
            return "auto"
        transport = TRANSPORTS.get(re.sub("[-_]", "", spelled).lower())
        if transport is None:
            expect.choice(spot, self._faults, ("auto", "streamable-http", "sse", "stdio"))
        elif stdio and transport in ("streamable-http", "sse"):
            message = f"{spot.name} is {spelled}, but the server has a command"
            self._faults.add(spot.fault(message, f"remove {spot.path[-1]}, or give a url"))
        elif "url" in self._keys and transport == "stdio":
            message = f"{spot.name} is {spelled}, but the server has a url"
            self._faults.add(spot.fault(message, f"remove {spot.path[-1]}, or give a command"))
        return "stdio" if stdio else transport or "auto"

    def _expanded(self, spot: Spot, label: str) -> str:
        """A string with its references resolved; empty where it is no string."""
        raw = expect.text(spot, self._faults)
        if raw is None:
            return ""
        if "\0" in raw:
            self._faults.add(spot.fault(f"{spot.name} has a NUL character"))
            return ""
        resolved = resolve(raw, self._environ)
        self._unresolved += [f"{label} {fault}" for fault in resolved.faults]
        self._secrets |= resolved.secrets
        return resolved.value

    def _filled(self, spot: Spot, label: str) -> str | None:
        """Like `_expanded`, for what cannot be empty; nothing where it is not to be had."""
        before = len(self._unresolved)
        value = self._expanded(spot, label)
        if len(self._unresolved) > before or not isinstance(spot.value, str):
            return None
        if not value and "\0" not in spot.value:
            self._object(spot, label, "is empty")
        return value or None

    def _object(self, spot: Spot, label: str, objection: str, hint: str = "") -> None:
        """A fault where the file says it so, a reason not to start where the environment does."""
        if "${" in spot.value:
            self._unresolved.append(f"{label} {objection}" + (f": {hint}" if hint else ""))
        else:
            self._faults.add(spot.fault(f"{spot.name} {objection}", hint))


_PROTOCOL: Final = partial(expect.choice, valid=PROTOCOLS)
_CAPTURE: Final = partial(expect.choice, valid=get_args(Capture))
_SCOPE: Final = partial(expect.choice, valid=get_args(Scope))
_TIMEOUT: Final = partial(expect.number, low=TIMEOUT_SECONDS_MIN, high=TIMEOUT_SECONDS_MAX)
_MESSAGE_BYTES: Final = partial(expect.whole, low=MESSAGE_BYTES_MIN, high=MESSAGE_BYTES_MAX)
