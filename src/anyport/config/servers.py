"""Builds a `ServerConfig` from a draft: resolves references, checks values, collects secrets.

A mistake in the file is a fault. A problem of the machine, such as a variable that is not set,
keeps only this server from starting.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar, cast, get_args
from urllib.parse import urlsplit

from anyport.config import values
from anyport.config.addresses import read_origin
from anyport.config.client_entries import ServerDraft
from anyport.config.document import ConfigNode
from anyport.config.faults import ConfigFaults, quote_name
from anyport.config.model import (
    MESSAGE_BYTES_DEFAULT,
    REVISIONS,
    Capture,
    Scope,
    ServerConfig,
    Transport,
)
from anyport.config.references import resolve_references
from anyport.config.server_limits import read_server_limits

# Environment variables of servers: valid names, and names that need permission.
#
# Some variables make a process run other code before its own. A copied configuration can hide such
# a variable among harmless tokens, so each must be permitted by name.

ENV_FILE_BYTES_MAX: Final = 1024 * 1024
"""Operating systems limit the environment of a process to a few megabytes in any case."""

CODE_LOADING_NAMES: Final = frozenset(
    {
        "BASH_ENV",
        "ENV",
        "IFS",
        "JAVA_TOOL_OPTIONS",
        "LD_AUDIT",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NODE_OPTIONS",
        "PATH",
        "PERL5LIB",
        "PERL5OPT",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "RUBYOPT",
    }
)
CODE_LOADING_PREFIX: Final = "DYLD_"

_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)", re.ASCII)


def explain_invalid_name(name: str) -> str | None:
    """Why this cannot be the name of an environment variable; None if it can."""
    if not name:
        return "a variable needs a name"
    if "=" in name:
        return "the name of a variable cannot have a '='"
    if re.search(r"[\0\r\n]", name):
        return "the name of a variable cannot have a line break or a NUL"
    return None


def explain_refused_names(names: Iterable[str], permitted: Iterable[str]) -> list[str]:
    """One message for each variable that can load code and is not permitted."""
    # On Windows, names of variables are case-insensitive.
    allowed = {name.upper() for name in permitted}
    return [
        f'sets {name}, which decides what code runs; add permitEnv = ["{name}"] to allow it'
        for name in names
        if _loads_code(name) and name.upper() not in allowed
    ]


def read_env_file(file: Path) -> dict[str, str] | str:
    """Read a file of NAME=value lines; returns the variables, or what is wrong with the file."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(ENV_FILE_BYTES_MAX + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        return f"cannot be read: {error.strerror or type(error).__name__}"
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    if len(raw) > ENV_FILE_BYTES_MAX:
        return f"is larger than {ENV_FILE_BYTES_MAX // 1024} KiB"
    variables: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        found = _LINE.fullmatch(stripped)
        if not found or "\0" in stripped:
            return f"has a line {number} that is not NAME=value"
        variables[found[1]] = _unquoted(found[2])
    return variables


def _loads_code(name: str) -> bool:
    upper = name.upper()
    return upper in CODE_LOADING_NAMES or upper.startswith(CODE_LOADING_PREFIX)


def _unquoted(value: str) -> str:
    for quote in ('"', "'"):
        if len(value) >= 2 and value.startswith(quote) and value.endswith(quote):
            return value[1:-1]
    return value


TIMEOUT_SECONDS_DEFAULT: Final = 60.0
TIMEOUT_SECONDS_MIN: Final = 0.1
TIMEOUT_SECONDS_MAX: Final = 3600.0
"""No client waits longer for one call; a larger number is probably in milliseconds."""

MESSAGE_BYTES_MIN: Final = 64 * 1024
"""A list of tools must fit."""
MESSAGE_BYTES_MAX: Final = 256 * 1024 * 1024
"""A larger message would use too much memory."""

PROXIES: Final = ("none", "env")
"""Values of `proxy` other than a URL; the first is the default."""

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
"""All spellings, in lower case and without `-` and `_`."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

_T = TypeVar("_T")


def build_server(
    draft: ServerDraft, environ: Mapping[str, str], faults: ConfigFaults
) -> ServerConfig:
    """Build the server of a draft. The result is unusable if it adds faults."""
    return _ServerBuilder(draft, environ, faults).build()


class _ServerBuilder:
    def __init__(
        self, draft: ServerDraft, environ: Mapping[str, str], faults: ConfigFaults
    ) -> None:
        self._draft = draft
        self._keys = draft.keys
        self._environ = environ
        self._faults = faults
        self._unresolved = list(draft.unresolved)
        self._secrets: set[str] = set()
        self._env_file_path: str | None = None

    def build(self) -> ServerConfig:
        self._check_endpoint()
        permit_env: tuple[str, ...] = self._read("permitEnv", values.read_texts, ())
        env = self._env()
        self._unresolved += explain_refused_names(env, permit_env)
        command, cwd, url = self._file_path("command"), self._file_path("cwd"), self._url()
        args, headers = self._args(), self._headers()
        return ServerConfig(
            slug=self._draft.slug,
            name=self._draft.name,
            origin=self._draft.origin.location,
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
            **read_server_limits(self._keys, self._faults),
            scope=cast(Scope, self._read("scope", _SCOPE, "auto")),
            capture=cast("Capture | None", self._read("capture", _CAPTURE, None)),
            disabled=self._read("disabled", values.read_boolean, False),
            message_bytes_max=self._read("maxMessageBytes", _MESSAGE_BYTES, MESSAGE_BYTES_DEFAULT),
            permit_env=permit_env,
            env_file=self._env_file_path,
            unresolved=tuple(dict.fromkeys(self._unresolved)),
            secrets=frozenset(self._secrets),
        )

    def _read(
        self, key: str, read: Callable[[ConfigNode, ConfigFaults], _T | None], default: _T
    ) -> _T:
        if key not in self._keys:
            return default
        value = read(self._keys[key], self._faults)
        return default if value is None else value

    def _check_endpoint(self) -> None:
        """A server needs exactly one of `command` and `url`, unless it cannot start anyway."""
        origin, name = self._draft.origin, quote_name(self._draft.name)
        if "command" in self._keys and "url" in self._keys:
            message = f"server {name} has both a command and a url"
            self._faults.add(origin.key_fault(message, "keep one of them"))
        elif "command" not in self._keys and "url" not in self._keys and not self._unresolved:
            message = f"server {name} has neither a command nor a url"
            self._faults.add(origin.key_fault(message, "add one of them"))

    def _file_path(self, key: str) -> str | None:
        """A path, with `~` expanded, relative to the configuration file.

        A bare command stays bare: it is looked up in PATH when the server starts.
        """
        if key not in self._keys:
            return None
        node = self._keys[key]
        path = self._resolve_nonempty(node, key)
        if path is None:
            return None
        if path == "~" or path.startswith(("~/", "~\\")):
            path = (self._environ.get("HOME") or os.path.expanduser("~")) + path[1:]
        if key == "cwd" or "/" in path or os.sep in path:
            path = str((node.file.parent / path).absolute())
        return path

    def _url(self) -> str | None:
        if "url" not in self._keys:
            return None
        node = self._keys["url"]
        url = self._resolve_nonempty(node, "url")
        if url is not None:
            self._check_url(node, url)
        return url

    def _check_url(self, node: ConfigNode, url: str) -> None:
        try:
            parts = urlsplit(url)
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
            # Reading the port validates it.
            is_valid = is_valid and parts.port != 0 and not re.search(r"[\x00-\x20\x7f]", url)
        except ValueError:
            is_valid = False
        if not is_valid:
            self._report(node, "url", "must be an address such as https://example.com/mcp")
        elif parts.username is not None or parts.password is not None:
            self._secrets.update({parts.password or ""} - {""})
            self._report(node, "url", "must not hold a user or password", "use headers")
        elif not f"{parts.path}{parts.query}".isascii():
            objection = "must have an ASCII path"
            self._report(node, "url", objection, "escape what is not, such as %C3%A9")

    def _args(self) -> tuple[str, ...]:
        if "args" not in self._keys:
            return ()
        node = self._keys["args"]
        if not isinstance(node.value, list):
            values.read_texts(node, self._faults)
            return ()
        return tuple(
            self._resolve(element, f"args[{index}]")
            for index, element in enumerate(node.elements())
        )

    def _env(self) -> dict[str, str]:
        env = self._env_file()
        self._secrets.update(env.values())
        for name, node in self._draft.env.items():
            fault = explain_invalid_name(name)
            if fault:
                self._faults.add(
                    node.key_fault(f"{quote_name(name)} is not possible in env: {fault}")
                )
                continue
            env[name] = self._resolve(node, f"env.{name}")
            self._secrets.add(env[name])
        self._secrets.discard("")
        return env

    def _env_file(self) -> dict[str, str]:
        if "envFile" not in self._keys:
            return {}
        path = self._file_path("envFile")
        if path is None:
            return {}
        node = self._keys["envFile"]
        self._env_file_path = str(node.file.parent / path)
        found = read_env_file(node.file.parent / path)
        if isinstance(found, str):
            # A value from a reference may be secret, even in a path.
            shown_path = node.value if "${" in node.value else node.file.parent / path
            self._unresolved.append(f"envFile {shown_path} {found}")
            return {}
        return found

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, node in self._draft.headers.items():
            if not _TOKEN.fullmatch(name):
                message = f"{quote_name(name)} cannot be the name of a header"
                self._faults.add(node.key_fault(message, "use letters, digits and -"))
                continue
            if name.lower() in (known.lower() for known in headers):
                self._faults.add(node.key_fault(f"the header {name} is given twice", "keep one"))
            value = self._resolve(node, f"headers.{name}")
            if not _FIELD_VALUE.fullmatch(value):
                self._report(node, f"headers.{name}", "has a character no header can carry")
            headers[name] = value
            # "Bearer x": x alone is the secret, and may turn up without the word before it.
            self._secrets.update({value, value.rpartition(" ")[2]} - {""})
        return headers

    def _proxy(self) -> str:
        if "proxy" not in self._keys:
            return PROXIES[0]
        node = self._keys["proxy"]
        proxy = self._resolve_nonempty(node, "proxy")
        if proxy is None or proxy in PROXIES:
            return proxy or PROXIES[0]
        origin = read_origin(proxy.removesuffix("/"))
        if origin is None or origin.scheme != "http":
            valid = ", ".join(f'"{option}"' for option in PROXIES)
            self._report(node, "proxy", f'must be {valid} or "http://host:port"')
        return proxy

    def _transport(self) -> Transport:
        stdio = "command" in self._keys
        if "transport" not in self._keys:
            return "stdio" if stdio else "auto"
        node = self._keys["transport"]
        spelled = values.read_text(node, self._faults)
        if spelled is None:
            return "auto"
        transport = TRANSPORTS.get(re.sub("[-_]", "", spelled).lower())
        if transport is None:
            values.read_choice(node, self._faults, ("auto", "streamable-http", "sse", "stdio"))
        elif stdio and transport in ("streamable-http", "sse"):
            message = f"{node.name} is {spelled}, but the server has a command"
            self._faults.add(node.fault(message, f"remove {node.path[-1]}, or give a url"))
        elif "url" in self._keys and transport == "stdio":
            message = f"{node.name} is {spelled}, but the server has a url"
            self._faults.add(node.fault(message, f"remove {node.path[-1]}, or give a command"))
        return "stdio" if stdio else transport or "auto"

    def _resolve(self, node: ConfigNode, label: str) -> str:
        """A string with its references resolved; empty if the value is not a string."""
        raw = values.read_text(node, self._faults)
        if raw is None:
            return ""
        if "\0" in raw:
            self._faults.add(node.fault(f"{node.name} has a NUL character"))
            return ""
        resolved = resolve_references(raw, self._environ)
        self._unresolved += [f"{label} {fault}" for fault in resolved.faults]
        self._secrets |= resolved.secrets
        return resolved.value

    def _resolve_nonempty(self, node: ConfigNode, label: str) -> str | None:
        """Like `_resolve`, but None if the string is empty or does not resolve."""
        before = len(self._unresolved)
        value = self._resolve(node, label)
        if len(self._unresolved) > before or not isinstance(node.value, str):
            return None
        if not value and "\0" not in node.value:
            self._report(node, label, "is empty")
        return value or None

    def _report(self, node: ConfigNode, label: str, objection: str, hint: str = "") -> None:
        """Report a fault in the file; if a reference is involved, a reason not to start."""
        if "${" in node.value:
            self._unresolved.append(f"{label} {objection}" + (f": {hint}" if hint else ""))
        else:
            self._faults.add(node.fault(f"{node.name} {objection}", hint))


_PROTOCOL: Final = partial(values.read_choice, valid=PROTOCOLS)
_CAPTURE: Final = partial(values.read_choice, valid=get_args(Capture))
_SCOPE: Final = partial(values.read_choice, valid=get_args(Scope))
_TIMEOUT: Final = partial(values.read_number, low=TIMEOUT_SECONDS_MIN, high=TIMEOUT_SECONDS_MAX)
_MESSAGE_BYTES: Final = partial(values.read_integer, low=MESSAGE_BYTES_MIN, high=MESSAGE_BYTES_MAX)
