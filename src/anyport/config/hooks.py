"""The `[[hooks]]` section: filters for events, and actions.

A mistake in the file is a fault. A problem of the machine, such as a variable that is not set,
disables only this hook. The filter language belongs to a higher layer, so the caller of `load`
passes a `FilterChecker`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from anyport.config import values
from anyport.config.document import ConfigNode
from anyport.config.faults import ConfigFaults, quote_name, suggest
from anyport.config.model import HookConfig, ProfileConfig
from anyport.config.references import resolve_references
from anyport.config.slugs import is_slug, slugify
from anyport.config.templates import BadTemplate, read_template

HOOK_KEYS: Final = ("name", "on", "post", "headers", "body", "run", "call", "arguments")
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "post": ("headers", "body"),
    "run": (),
    "call": ("arguments",),
}
"""Actions of hooks, and the keys that belong to each."""

HOOKS_MAX: Final = 64
"""Each hook is matched against every event."""

RESERVED_HEADERS: Final = frozenset(
    {"content-length", "content-type", "host", "idempotency-key", "transfer-encoding"}
)
"""Header fields that describe the request itself; a configuration cannot set them."""

_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterObjection:
    """A problem of a filter."""

    message: str
    hint: str = ""
    excerpt: str = ""
    """The filter, and below it a caret at the error."""
    usable: bool = False
    """Whether the filter can still be used: then this is a warning."""


FilterChecker: TypeAlias = Callable[[str], FilterObjection | None]
"""Takes the text of a filter; returns what is wrong with it, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """The rest of the configuration, as far as hooks refer to it."""

    environ: Mapping[str, str]
    servers: Mapping[str, str] | None
    """Slugs of servers by name and slug; None if a file could not be read."""
    profiles: Mapping[str, ProfileConfig]
    check_filter: FilterChecker | None


def merge_hooks(node: ConfigNode, merged: dict[str, ConfigNode], faults: ConfigFaults) -> None:
    """Add the hooks of one file to those of earlier files, replacing hooks of the same name."""
    if not isinstance(node.value, list):
        hint = "write [[hooks]] in TOML, an array of objects in JSON"
        faults.add(node.fault("hooks must be an array of tables", hint))
        return
    for element in node.elements():
        if not values.check_table(element, faults):
            continue
        name = _read_name(element, faults)
        if name in merged and merged[name].document is element.document:
            faults.add(
                element.fault(f"two hooks are called {quote_name(name)}", "rename one of them")
            )
            name = None
        # A hook without a usable name is still checked, so that all faults are reported.
        merged[name or f"{element.file} {element.name}"] = element
    if len(merged) > HOOKS_MAX:
        faults.add(node.fault(f"there are more than {HOOKS_MAX} hooks", "join some of them"))


def build_hooks(
    merged: Mapping[str, ConfigNode], context: HookContext, faults: ConfigFaults
) -> tuple[HookConfig, ...]:
    """Build the hooks. The result is unusable if it adds faults."""
    return tuple(_HookBuilder(name, node, context, faults).build() for name, node in merged.items())


def _read_name(hook: ConfigNode, faults: ConfigFaults) -> str | None:
    found = dict(hook.items()).get("name")
    if found is None:
        faults.add(hook.fault(f"{hook.name} has no name", 'such as name = "alarm"'))
        return None
    name = values.read_text(found, faults)
    if name is not None and not is_slug(name):
        message = f"{quote_name(name)} cannot be the name of a hook"
        faults.add(found.fault(message, f"use {slugify(name)}"))
        return None
    return name


class _HookBuilder:
    def __init__(
        self, name: str, node: ConfigNode, context: HookContext, faults: ConfigFaults
    ) -> None:
        self._name = name
        self._title = f"the hook '{name}'" if is_slug(name) else node.name
        self._node = node
        self._keys = values.read_members(node, faults, HOOK_KEYS)
        self._context = context
        self._faults = faults
        self._unresolved: list[str] = []
        self._secrets: set[str] = set()

    def build(self) -> HookConfig:
        self._check_actions()
        on = self._filter()
        post, headers = self._url(), self._headers()
        run, call = self._command(), self._tool()
        arguments, body = self._read_template_table("arguments"), self._read_template_table("body")
        for reason in self._unresolved:
            message = f"{self._title} will do nothing: {reason}"
            self._faults.warn(self._node.fault(message))
        return HookConfig(
            name=self._name,
            on=on,
            post=post,
            headers=MappingProxyType(headers),
            body=body,
            run=run,
            call=call,
            arguments=arguments or {},
            unresolved=tuple(dict.fromkeys(self._unresolved)),
            secrets=frozenset(self._secrets - {""}),
        )

    def _check_actions(self) -> None:
        actions = [key for key in ACTIONS if key in self._keys]
        if len(actions) != 1:
            objection = "does nothing" if not actions else f"has both {' and '.join(actions)}"
            hint = f"give it one of {', '.join(ACTIONS)}"
            self._faults.add(self._node.fault(f"{self._title} {objection}", hint))
            return
        for action, keys in ACTIONS.items():
            for key in keys if action != actions[0] else ():
                if key in self._keys:
                    message = f"{self._keys[key].name} goes with {action}, not with {actions[0]}"
                    self._faults.add(self._keys[key].key_fault(message, "remove it"))

    def _filter(self) -> str:
        node = self._keys.get("on")
        if node is None:
            hint = 'such as on = "status:error"'
            self._faults.add(self._node.fault(f"{self._title} has no filter", hint))
            return ""
        text = values.read_text(node, self._faults)
        if text is None:
            return ""
        if not text.strip():
            hint = 'on = "type:*" is every event'
            self._faults.add(node.fault(f"{node.name} is empty", hint))
        objection = None if self._context.check_filter is None else self._context.check_filter(text)
        if objection is not None:
            message = f"{node.name}: {objection.message}"
            report = self._faults.warn if objection.usable else self._faults.add
            report(node.fault(message, objection.hint, objection.excerpt))
        return text

    def _url(self) -> str | None:
        node = self._keys.get("post")
        if node is None:
            return None
        url = self._resolve(node, "post")
        if url is None:
            return _unresolved_text(node)
        try:
            parts = urlsplit(url)
            # Reading the port validates it.
            is_valid = (
                parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            )
        except ValueError:
            is_valid = False
        if not is_valid or re.search(r"[^\x21-\x7e]", url):
            self._report(node, "post", "must be an address such as https://example.com/events")
        elif parts.username is not None or parts.password is not None:
            self._report(node, "post", "must not hold a user or password; use headers")
        return url

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        node = self._keys.get("headers")
        if node is None or not values.check_table(node, self._faults):
            return headers
        for name, member in node.items():
            if not _FIELD_NAME.fullmatch(name) or name.lower() in RESERVED_HEADERS:
                message = f"{quote_name(name)} cannot be a header of a hook"
                self._faults.add(member.key_fault(message, "remove it, or use another name"))
                continue
            value = self._resolve(member, f"headers.{name}")
            if value is None:
                continue
            if not _FIELD_VALUE.fullmatch(value):
                self._report(member, f"headers.{name}", "has a character no header can carry")
            headers[name] = value
            # "Bearer x": x alone is the secret, and may turn up without the word before it.
            self._secrets.update({value, value.rpartition(" ")[2]})
        return headers

    def _command(self) -> tuple[str, ...]:
        node = self._keys.get("run")
        if node is None or values.read_texts(node, self._faults) is None:
            return ()
        found = [
            (self._resolve(element, element.name), _unresolved_text(element))
            for element in node.elements()
        ]
        if not found or found[0][0] == "":
            hint = 'such as run = ["notify-send", "Anyport"]'
            self._faults.add(node.fault(f"{node.name} names no command", hint))
        command = [written if resolved is None else resolved for resolved, written in found]
        if found and found[0][0] is not None and "/" in command[0]:
            # As with servers: a bare name is looked up in PATH, a path is relative to the file.
            program = os.path.expanduser(command[0])
            command[0] = str((node.file.parent / program).absolute())
        return tuple(command)

    def _tool(self) -> tuple[str, str] | None:
        node = self._keys.get("call")
        written = None if node is None else values.read_text(node, self._faults)
        if node is None or written is None:
            return None
        name, slash, tool = written.partition("/")
        if not (name and slash and tool):
            hint = "a server, a slash, and the tool as that server calls it"
            self._faults.add(node.fault(f"{node.name} must be server/tool", hint))
            return None
        known = self._context.servers
        if known is None:
            return None
        if name not in known:
            hint = suggest(name, known) if known else "no server is defined"
            self._faults.add(node.fault(f"there is no server {quote_name(name)}", hint))
            return None
        slug = known[name]
        if not any(slug in profile.servers for profile in self._context.profiles.values()):
            hint = "a hook calls as a client of a profile does: add the server to one"
            self._faults.add(node.fault(f"no profile has the server {quote_name(slug)}", hint))
        return slug, tool

    def _read_template_table(self, key: str) -> dict[str, Any] | None:
        """A table whose strings may refer to the environment and to the event."""
        node = self._keys.get(key)
        if node is None or not values.check_table(node, self._faults):
            return None
        return {name: self._read_template_value(member) for name, member in node.items()}

    def _read_template_value(self, node: ConfigNode) -> Any:
        if isinstance(node.value, dict):
            return {name: self._read_template_value(member) for name, member in node.items()}
        if isinstance(node.value, list):
            return [self._read_template_value(element) for element in node.elements()]
        if not isinstance(node.value, str):
            if not isinstance(node.value, int | float) or not math.isfinite(node.value):
                self._faults.add(node.fault(f"{node.name} must be something that JSON has"))
            return node.value
        try:
            read_template(node.value)
        except BadTemplate as error:
            self._faults.add(node.fault(f"{node.name} {error.message}", error.hint))
        return self._resolve(node, node.name)

    def _resolve(self, node: ConfigNode, label: str) -> str | None:
        """A string with its references to the environment resolved."""
        raw = values.read_text(node, self._faults)
        if raw is None:
            return None
        if "\0" in raw:
            self._faults.add(node.fault(f"{node.name} has a NUL character"))
            return None
        resolved = resolve_references(raw, self._context.environ)
        self._unresolved += [f"{label} {fault}" for fault in resolved.faults]
        self._secrets |= resolved.secrets
        return None if resolved.faults else resolved.value

    def _report(self, node: ConfigNode, label: str, objection: str) -> None:
        """Report a fault in the file, or leave the hook unresolved if a reference is involved."""
        if "${" in node.value:
            self._unresolved.append(f"{label} {objection}")
        else:
            self._faults.add(node.fault(f"{node.name} {objection}"))


def _unresolved_text(node: ConfigNode) -> str:
    """The text as written: a hook with unresolved references is shown but never run."""
    return str(node.value)
