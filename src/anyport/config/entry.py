"""One server's entry, as our files and those of the clients write it, in our own words.

Here live the dialects: other names for a key, other shapes of a value, keys that clients keep
for themselves. What comes out is a draft with our keys only. Whether their values make sense
is not known here, save where a dialect forces the question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from anyport.config import expect
from anyport.config.document import Spot
from anyport.config.faults import Faults, shown
from anyport.config.slug import slugify
from anyport.config.stamina import STAMINA_KEYS

KEYS: Final = (
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
    *STAMINA_KEYS,
)
"""The keys of a server, as documented."""

ALIASES: Final[Mapping[str, str]] = {
    "type": "transport",
    "serverUrl": "url",
    "httpUrl": "url",
    "uri": "url",
    "http_headers": "headers",
    "tool_timeout_sec": "timeout",
}

NEGATED: Final = frozenset({"enabled", "isActive"})
"""Keys that say the opposite of `disabled`."""

CLIENT_ONLY: Final = frozenset(
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
"""What clients note about a server for their own use; it changes nothing about reaching it."""

TOOL_FILTERS: Final = frozenset(
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
"""A client's choice of tools is for that client. In a file of ours it would be a mistake."""

HEADER_COMMANDS: Final = frozenset({"headersHelper", "http_headers_helper"})

SPECIAL: Final = frozenset({"env_vars", "env_http_headers", "bearer_token_env_var"})

MILLISECONDS_ABOVE: Final = 1000
"""No client waits 17 minutes for a call, and none gives up after a second: above, it counts ms."""

_UNFIT_NAME: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(slots=True, kw_only=True)
class Draft:
    """What the files read so far say about one server."""

    name: str
    slug: str
    origin: Spot
    keys: dict[str, Spot] = field(default_factory=dict)
    env: dict[str, Spot] = field(default_factory=dict)
    headers: dict[str, Spot] = field(default_factory=dict)
    unresolved: list[str] = field(default_factory=list)

    def laid_over(self, earlier: Draft) -> Draft:
        """This entry after an earlier file's.

        One that says how to reach the server replaces the earlier one whole: a new command must
        not inherit the tokens that were meant for another.
        """
        if "command" in self.keys or "url" in self.keys:
            return replace(self, name=earlier.name)
        return Draft(
            name=earlier.name,
            slug=self.slug,
            origin=self.origin,
            keys=earlier.keys | self.keys,
            env=earlier.env | self.env,
            headers=earlier.headers | self.headers,
            unresolved=earlier.unresolved + self.unresolved,
        )


def draft(
    name: str, spot: Spot, *, ours: bool, environ: Mapping[str, str], faults: Faults
) -> Draft | None:
    """The draft of one entry, or nothing where it has no meaning at all."""
    if not name.strip() or _UNFIT_NAME.search(name):
        message = f"{shown(name)} cannot be the name of a server"
        faults.add(spot.key_fault(message, "use letters, digits and -"))
        return None
    if not expect.table(spot, faults):
        return None
    reader = _Reader(Draft(name=name, slug=slugify(name), origin=spot), ours, environ, faults)
    for key, member in spot.items():
        reader.take(key, member)
    reader.finish()
    return reader.draft


class _Reader:
    def __init__(
        self, draft: Draft, ours: bool, environ: Mapping[str, str], faults: Faults
    ) -> None:
        self.draft = draft
        self._ours = ours
        self._environ = environ
        self._faults = faults

    def take(self, key: str, spot: Spot) -> None:
        canonical = ALIASES.get(key, key)
        if canonical in ("env", "headers"):
            self._take_map(canonical, spot)
        elif canonical in KEYS:
            self._take_plain(key, canonical, spot)
        elif key in NEGATED:
            enabled = expect.boolean(spot, self._faults)
            self._put("disabled", replace(spot, value=not enabled))
        elif key in SPECIAL:
            self._take_special(key, spot)
        elif key in HEADER_COMMANDS:
            self.draft.unresolved.append(
                f"takes its headers from {key}, a command that only the client runs; "
                "write them in headers"
            )
        elif key in TOOL_FILTERS and self._ours:
            hint = "use tools = { allow = [...], deny = [...] } in a profile"
            self._faults.add(spot.key_fault(f"{key} is a key of clients and has no effect", hint))
        elif key not in CLIENT_ONLY and key not in TOOL_FILTERS:
            expect.unknown(key, spot, self._faults, KEYS)

    def finish(self) -> None:
        """Looks at the entry as a whole."""
        draft = self.draft
        entry = draft.origin.value
        if "command" not in draft.keys and "url" not in draft.keys:
            if entry.get("source") == "extension" or (not self._ours and "settings" in entry):
                draft.unresolved.append("comes from an editor's extension, which only it starts")
        elif self._ours:
            self._refuse_idle("url", {"args", "env", "envFile", "cwd", "permitEnv"}, "a command")
            self._refuse_idle("command", {"headers", "proxy"}, "a url")

    def _refuse_idle(self, given: str, idle: set[str], wanted: str) -> None:
        if given in self.draft.keys:
            for key, spot in self.draft.origin.items():
                if key in idle and spot.value:
                    message = f"{key} needs {wanted}, and this server has a {given}"
                    self._faults.add(spot.key_fault(message, f"remove {key}"))

    def _take_plain(self, key: str, canonical: str, spot: Spot) -> None:
        if key == "command" and isinstance(spot.value, dict) and not self._ours:
            self._take_command_table(spot)
            return
        if key == "httpUrl":
            # The key itself tells the transport: such a client writes `url` for event streams.
            self.draft.keys.setdefault("transport", replace(spot, value="streamable-http"))
        if key == "timeout" and not self._ours:
            spot = _in_seconds(spot)
        self._put(canonical, spot)

    def _put(self, key: str, spot: Spot) -> None:
        earlier = self.draft.keys.get(key)
        implied = earlier is not None and earlier.path[-1] == "httpUrl" and key == "transport"
        if earlier is not None and not implied and earlier.value != spot.value:
            message = f"{spot.path[-1]} and {earlier.path[-1]} contradict each other"
            self._faults.add(spot.key_fault(message, f"keep {key} only"))
        self.draft.keys[key] = spot

    def _take_command_table(self, spot: Spot) -> None:
        parts = expect.members(spot, self._faults, ("path", "args", "env"))
        for key, part in parts.items():
            self.take("command" if key == "path" else key, part)

    def _take_map(self, canonical: str, spot: Spot) -> None:
        if expect.table(spot, self._faults):
            target = self.draft.env if canonical == "env" else self.draft.headers
            target.update(spot.items())

    def _take_special(self, key: str, spot: Spot) -> None:
        """Keys that name environment variables instead of referring to them."""
        if key == "bearer_token_env_var":
            variable = expect.text(spot, self._faults)
            bearer = replace(spot, value=f"Bearer ${{env:{variable}}}")
            self.draft.headers.setdefault("Authorization", bearer)
        elif key == "env_http_headers" and expect.table(spot, self._faults):
            for header, named in spot.items():
                variable = expect.text(named, self._faults)
                self.draft.headers[header] = replace(named, value=f"${{env:{variable}}}")
        elif key == "env_vars":
            # Forwarded where they are set, which is all that the client promises.
            for name in expect.texts(spot, self._faults) or ():
                if self._environ.get(name):
                    forwarded = replace(spot, value=f"${{env:{name}}}")
                    self.draft.env.setdefault(name, forwarded)


def _in_seconds(spot: Spot) -> Spot:
    value = spot.value
    if isinstance(value, int | float) and value > MILLISECONDS_ABOVE:
        return replace(spot, value=value / 1000)
    return spot
