"""Reads server entries in the dialects of MCP clients.

Maps aliases and other forms of values to the keys of Anyport, and ignores keys that concern the
client alone. The result is a `ServerDraft`, whose values `servers.py` checks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from anyport.config import values
from anyport.config.document import ConfigNode
from anyport.config.faults import ConfigFaults, quote_name
from anyport.config.server_limits import SERVER_LIMIT_KEYS
from anyport.config.slugs import slugify

SERVER_KEYS: Final = (
    "command",
    "args",
    "env",
    "envFile",
    "cwd",
    "url",
    "headers",
    "proxy",
    "transport",
    "protocol",
    "timeout",
    "scope",
    "capture",
    "disabled",
    "maxMessageBytes",
    "permitEnv",
    *SERVER_LIMIT_KEYS,
)
"""The keys of a server, as documented."""

KEY_ALIASES: Final[Mapping[str, str]] = {
    "type": "transport",
    "serverUrl": "url",
    "httpUrl": "url",
    "uri": "url",
    "http_headers": "headers",
    "tool_timeout_sec": "timeout",
}

NEGATED_KEYS: Final = frozenset({"enabled", "isActive"})
"""Keys with the opposite meaning of `disabled`."""

CLIENT_ONLY_KEYS: Final = frozenset(
    {
        "_meta",
        "alwaysAllow",
        "alwaysLoad",
        "auth",
        "authProviderType",
        "authorization",
        "autoApprove",
        "autoStart",
        "default_tools_approval_mode",
        "description",
        "dev",
        "displayName",
        "environment_id",
        "experimental_environment",
        "gallery",
        "icon",
        "iconPath",
        "iconUrl",
        "icons",
        "id",
        "initTimeout",
        "installed",
        "instructions",
        "logoUrl",
        "longRunning",
        "metadata",
        "name",
        "notes",
        "oauth",
        "oauth_resource",
        "provider",
        "providerUrl",
        "reference",
        "registry",
        "remote",
        "required",
        "sandbox",
        "sandboxEnabled",
        "scopes",
        "settings",
        "source",
        "startup_timeout_ms",
        "startup_timeout_sec",
        "supports_parallel_tool_calls",
        "tags",
        "title",
        "transportOptions",
        "trust",
        "version",
        "watchPaths",
    }
)
"""Keys that only matter to clients; they do not affect how to reach the server."""

TOOL_FILTER_KEYS: Final = frozenset(
    {
        "allowedTools",
        "disabledPrompts",
        "disabledTools",
        "disabled_tools",
        "enabledTools",
        "enabled_tools",
        "excludeTools",
        "includeTools",
        "tools",
    }
)
"""A client's choice of tools concerns that client alone. In a file of Anyport it is a fault."""

HEADER_COMMAND_KEYS: Final = frozenset({"headersHelper", "http_headers_helper"})

VARIABLE_NAMING_KEYS: Final = frozenset({"env_vars", "env_http_headers", "bearer_token_env_var"})

MILLISECONDS_ABOVE: Final = 1000
"""A larger `timeout` is in milliseconds: no client waits 17 minutes or gives up after a second."""

_INVALID_NAME: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(slots=True, kw_only=True)
class ServerDraft:
    """One server as defined by the files read so far."""

    name: str
    slug: str
    origin: ConfigNode
    keys: dict[str, ConfigNode] = field(default_factory=dict)
    env: dict[str, ConfigNode] = field(default_factory=dict)
    headers: dict[str, ConfigNode] = field(default_factory=dict)
    unresolved: list[str] = field(default_factory=list)

    def merge_over(self, earlier: ServerDraft) -> ServerDraft:
        """Merge this entry over the entry of an earlier file.

        An entry with a command or URL replaces the earlier one as a whole: a new command must not
        inherit tokens that were meant for another.
        """
        if "command" in self.keys or "url" in self.keys:
            return replace(self, name=earlier.name)
        return ServerDraft(
            name=earlier.name,
            slug=self.slug,
            origin=self.origin,
            keys=earlier.keys | self.keys,
            env=earlier.env | self.env,
            headers=earlier.headers | self.headers,
            unresolved=earlier.unresolved + self.unresolved,
        )


def read_entry(
    name: str,
    node: ConfigNode,
    *,
    is_anyport_file: bool,
    environ: Mapping[str, str],
    faults: ConfigFaults,
) -> ServerDraft | None:
    """Read one entry; None if its name or type is wrong."""
    if not name.strip() or _INVALID_NAME.search(name):
        message = f"{quote_name(name)} cannot be the name of a server"
        faults.add(node.key_fault(message, "use letters, digits and -"))
        return None
    if not values.check_table(node, faults):
        return None
    reader = _EntryReader(
        ServerDraft(name=name, slug=slugify(name), origin=node), is_anyport_file, environ, faults
    )
    for key, member in node.items():
        reader.read_key(key, member)
    reader.check_entry()
    return reader.draft


class _EntryReader:
    def __init__(
        self,
        draft: ServerDraft,
        is_anyport_file: bool,
        environ: Mapping[str, str],
        faults: ConfigFaults,
    ) -> None:
        self.draft = draft
        self._is_anyport_file = is_anyport_file
        self._environ = environ
        self._faults = faults

    def read_key(self, key: str, node: ConfigNode) -> None:
        canonical = KEY_ALIASES.get(key, key)
        if canonical in ("env", "headers"):
            self._read_map(canonical, node)
        elif canonical in SERVER_KEYS:
            self._read_plain(key, canonical, node)
        elif key in NEGATED_KEYS:
            enabled = values.read_boolean(node, self._faults)
            self._set_key("disabled", replace(node, value=not enabled))
        elif key in VARIABLE_NAMING_KEYS:
            self._read_variable_names(key, node)
        elif key in HEADER_COMMAND_KEYS:
            self.draft.unresolved.append(
                f"takes its headers from {key}, a command that only the client runs; "
                "write them in headers"
            )
        elif key in TOOL_FILTER_KEYS and self._is_anyport_file:
            hint = "use tools = { allow = [...], deny = [...] } in a profile"
            self._faults.add(node.key_fault(f"{key} is a key of clients and has no effect", hint))
        elif key not in CLIENT_ONLY_KEYS and key not in TOOL_FILTER_KEYS:
            values.report_unknown_key(key, node, self._faults, SERVER_KEYS)

    def check_entry(self) -> None:
        draft = self.draft
        entry = draft.origin.value
        if "command" not in draft.keys and "url" not in draft.keys:
            if entry.get("source") == "extension" or (
                not self._is_anyport_file and "settings" in entry
            ):
                draft.unresolved.append("comes from an editor's extension, which only it starts")
        elif self._is_anyport_file:
            self._refuse_unused_keys(
                "url", {"args", "env", "envFile", "cwd", "permitEnv"}, "a command"
            )
            self._refuse_unused_keys("command", {"headers", "proxy"}, "a url")

    def _refuse_unused_keys(self, given: str, idle: set[str], wanted: str) -> None:
        if given in self.draft.keys:
            for key, node in self.draft.origin.items():
                if key in idle and node.value:
                    message = f"{key} needs {wanted}, and this server has a {given}"
                    self._faults.add(node.key_fault(message, f"remove {key}"))

    def _read_plain(self, key: str, canonical: str, node: ConfigNode) -> None:
        if key == "command" and isinstance(node.value, dict) and not self._is_anyport_file:
            self._read_command_table(node)
            return
        if key == "httpUrl":
            # The key implies the transport: clients that have it use `url` for HTTP+SSE.
            self.draft.keys.setdefault("transport", replace(node, value="streamable-http"))
        if key == "timeout" and not self._is_anyport_file:
            node = _in_seconds(node)
        self._set_key(canonical, node)

    def _set_key(self, key: str, node: ConfigNode) -> None:
        earlier = self.draft.keys.get(key)
        implied = earlier is not None and earlier.path[-1] == "httpUrl" and key == "transport"
        if earlier is not None and not implied and earlier.value != node.value:
            message = f"{node.path[-1]} and {earlier.path[-1]} contradict each other"
            self._faults.add(node.key_fault(message, f"keep {key} only"))
        self.draft.keys[key] = node

    def _read_command_table(self, node: ConfigNode) -> None:
        parts = values.read_members(node, self._faults, ("path", "args", "env"))
        for key, part in parts.items():
            self.read_key("command" if key == "path" else key, part)

    def _read_map(self, canonical: str, node: ConfigNode) -> None:
        if values.check_table(node, self._faults):
            target = self.draft.env if canonical == "env" else self.draft.headers
            target.update(node.items())

    def _read_variable_names(self, key: str, node: ConfigNode) -> None:
        """Keys whose values are names of environment variables, not references."""
        if key == "bearer_token_env_var":
            variable = values.read_text(node, self._faults)
            bearer = replace(node, value=f"Bearer ${{env:{variable}}}")
            self.draft.headers.setdefault("Authorization", bearer)
        elif key == "env_http_headers" and values.check_table(node, self._faults):
            for header, named in node.items():
                variable = values.read_text(named, self._faults)
                self.draft.headers[header] = replace(named, value=f"${{env:{variable}}}")
        elif key == "env_vars":
            # Variables that are not set are skipped: the client only forwards those that are.
            for name in values.read_texts(node, self._faults) or ():
                if self._environ.get(name):
                    forwarded = replace(node, value=f"${{env:{name}}}")
                    self.draft.env.setdefault(name, forwarded)


def _in_seconds(node: ConfigNode) -> ConfigNode:
    value = node.value
    if isinstance(value, int | float) and value > MILLISECONDS_ABOVE:
        return replace(node, value=value / 1000)
    return node
