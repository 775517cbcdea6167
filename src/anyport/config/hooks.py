"""Hooks, from located values to frozen types: which events, and what to do about them.

What stands in the file and is wrong is a fault. What depends on the machine, such as a variable
that is not set, leaves the hook unresolved and everything else alone. The language of filters is
known above: whoever loads a configuration brings a judge for it.
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

from anyport.config import expect
from anyport.config.document import Spot
from anyport.config.faults import Faults, shown, suggestion
from anyport.config.reference import resolve
from anyport.config.schema import HookConfig, ProfileConfig
from anyport.config.slug import is_slug, slugify
from anyport.config.template import BadTemplate, read_template

HOOK_KEYS: Final = ("name", "on", "post", "headers", "body", "run", "call", "arguments")
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "post": ("headers", "body"),
    "run": (),
    "call": ("arguments",),
}
"""What a hook can do, and the keys that belong to it."""

HOOKS_MAX: Final = 64
"""Each looks at every event; nobody has so many places to tell."""

OURS: Final = frozenset(
    {"content-length", "content-type", "host", "idempotency-key", "transfer-encoding"}
)
"""Header fields that say what a request is: no configuration can know that."""

_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """What is wrong with a filter."""

    message: str
    hint: str = ""
    excerpt: str = ""
    """The filter, and below it a caret where it goes wrong."""
    usable: bool = False
    """Whether it can be used all the same, and is merely unwise."""


Judge: TypeAlias = Callable[[str], Objection | None]
"""Takes the text of a filter; says what is wrong with it, if anything is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a hook is held against."""

    environ: Mapping[str, str]
    servers: Mapping[str, str] | None
    """Every way of naming a server, to its slug; None where not all are known."""
    profiles: Mapping[str, ProfileConfig]
    judge: Judge | None


def lay_hooks(spot: Spot, laid: dict[str, Spot], faults: Faults) -> None:
    """Add the hooks of one file to those of earlier files; one of the same name replaces it."""
    if not isinstance(spot.value, list):
        hint = "write [[hooks]] in TOML, an array of objects in JSON"
        faults.add(spot.fault("hooks must be an array of tables", hint))
        return
    for element in spot.elements():
        if not expect.table(element, faults):
            continue
        name = _name(element, faults)
        if name in laid and laid[name].document is element.document:
            faults.add(element.fault(f"two hooks are called {shown(name)}", "rename one of them"))
            name = None
        # Without a name of its own it is worthless, but what else is wrong with it is told, too.
        laid[name or f"{element.file} {element.name}"] = element
    if len(laid) > HOOKS_MAX:
        faults.add(spot.fault(f"there are more than {HOOKS_MAX} hooks", "join some of them"))


def build_hooks(
    laid: Mapping[str, Spot], around: Surroundings, faults: Faults
) -> tuple[HookConfig, ...]:
    """The hooks; worthless when they added to the faults."""
    return tuple(_Builder(name, spot, around, faults).hook() for name, spot in laid.items())


def _name(hook: Spot, faults: Faults) -> str | None:
    found = dict(hook.items()).get("name")
    if found is None:
        faults.add(hook.fault(f"{hook.name} has no name", 'such as name = "alarm"'))
        return None
    name = expect.text(found, faults)
    if name is not None and not is_slug(name):
        message = f"{shown(name)} cannot be the name of a hook"
        faults.add(found.fault(message, f"use {slugify(name)}"))
        return None
    return name


class _Builder:
    def __init__(self, name: str, spot: Spot, around: Surroundings, faults: Faults) -> None:
        self._name = name
        self._title = f"the hook '{name}'" if is_slug(name) else spot.name
        self._spot = spot
        self._keys = expect.members(spot, faults, HOOK_KEYS)
        self._around = around
        self._faults = faults
        self._unresolved: list[str] = []
        self._secrets: set[str] = set()

    def hook(self) -> HookConfig:
        self._judge_actions()
        on = self._filter()
        post, headers = self._url(), self._headers()
        run, call = self._command(), self._tool()
        arguments, body = self._texts("arguments"), self._texts("body")
        for reason in self._unresolved:
            message = f"{self._title} will do nothing: {reason}"
            self._faults.warn(self._spot.fault(message))
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

    def _judge_actions(self) -> None:
        said = [key for key in ACTIONS if key in self._keys]
        if len(said) != 1:
            words = "does nothing" if not said else f"has both {' and '.join(said)}"
            hint = f"give it one of {', '.join(ACTIONS)}"
            self._faults.add(self._spot.fault(f"{self._title} {words}", hint))
            return
        for action, keys in ACTIONS.items():
            for key in keys if action != said[0] else ():
                if key in self._keys:
                    message = f"{self._keys[key].name} goes with {action}, not with {said[0]}"
                    self._faults.add(self._keys[key].key_fault(message, "remove it"))

    def _filter(self) -> str:
        spot = self._keys.get("on")
        if spot is None:
            hint = 'such as on = "status:error"'
            self._faults.add(self._spot.fault(f"{self._title} has no filter", hint))
            return ""
        text = expect.text(spot, self._faults)
        if text is None:
            return ""
        if not text.strip():
            hint = 'on = "type:*" is every event'
            self._faults.add(spot.fault(f"{spot.name} is empty", hint))
        objection = None if self._around.judge is None else self._around.judge(text)
        if objection is not None:
            message = f"{spot.name}: {objection.message}"
            tell = self._faults.warn if objection.usable else self._faults.add
            tell(spot.fault(message, objection.hint, objection.excerpt))
        return text

    def _url(self) -> str | None:
        spot = self._keys.get("post")
        if spot is None:
            return None
        url = self._expanded(spot, "post")
        if url is None:
            return _as_written(spot)
        try:
            parts = urlsplit(url)
            # Reading the port judges it.
            fit = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fit = False
        if not fit or re.search(r"[^\x21-\x7e]", url):
            self._object(spot, "post", "must be an address such as https://example.com/events")
        elif parts.username is not None or parts.password is not None:
            self._object(spot, "post", "must not hold a user or password; use headers")
        return url

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        spot = self._keys.get("headers")
        if spot is None or not expect.table(spot, self._faults):
            return headers
        for name, member in spot.items():
            if not _FIELD_NAME.fullmatch(name) or name.lower() in OURS:
                message = f"{shown(name)} cannot be a header of a hook"
                self._faults.add(member.key_fault(message, "remove it, or use another name"))
                continue
            value = self._expanded(member, f"headers.{name}")
            if value is None:
                continue
            if not _FIELD_VALUE.fullmatch(value):
                self._object(member, f"headers.{name}", "has a character no header can carry")
            headers[name] = value
            # "Bearer x": x alone is the secret, and may turn up without the word before it.
            self._secrets.update({value, value.rpartition(" ")[2]})
        return headers

    def _command(self) -> tuple[str, ...]:
        spot = self._keys.get("run")
        if spot is None or expect.texts(spot, self._faults) is None:
            return ()
        found = [(self._expanded(word, word.name), _as_written(word)) for word in spot.elements()]
        if not found or found[0][0] == "":
            hint = 'such as run = ["notify-send", "Anyport"]'
            self._faults.add(spot.fault(f"{spot.name} names no command", hint))
        words = [written if word is None else word for word, written in found]
        if found and found[0][0] is not None and "/" in words[0]:
            # As with servers: a bare name is looked up, and relative is relative to the file.
            program = os.path.expanduser(words[0])
            words[0] = str((spot.file.parent / program).absolute())
        return tuple(words)

    def _tool(self) -> tuple[str, str] | None:
        spot = self._keys.get("call")
        written = None if spot is None else expect.text(spot, self._faults)
        if spot is None or written is None:
            return None
        name, slash, tool = written.partition("/")
        if not (name and slash and tool):
            hint = "a server, a slash, and the tool as that server calls it"
            self._faults.add(spot.fault(f"{spot.name} must be server/tool", hint))
            return None
        known = self._around.servers
        if known is None:
            return None
        if name not in known:
            hint = suggestion(name, known) if known else "no server is defined"
            self._faults.add(spot.fault(f"there is no server {shown(name)}", hint))
            return None
        slug = known[name]
        if not any(slug in profile.servers for profile in self._around.profiles.values()):
            hint = "a hook calls as a client of a profile does: add the server to one"
            self._faults.add(spot.fault(f"no profile has the server {shown(slug)}", hint))
        return slug, tool

    def _texts(self, key: str) -> dict[str, Any] | None:
        """A table whose texts may refer to the environment and to the event."""
        spot = self._keys.get(key)
        if spot is None or not expect.table(spot, self._faults):
            return None
        return {name: self._value(member) for name, member in spot.items()}

    def _value(self, spot: Spot) -> Any:
        if isinstance(spot.value, dict):
            return {name: self._value(member) for name, member in spot.items()}
        if isinstance(spot.value, list):
            return [self._value(element) for element in spot.elements()]
        if not isinstance(spot.value, str):
            if not isinstance(spot.value, int | float) or not math.isfinite(spot.value):
                self._faults.add(spot.fault(f"{spot.name} must be something that JSON has"))
            return spot.value
        try:
            read_template(spot.value)
        except BadTemplate as error:
            self._faults.add(spot.fault(f"{spot.name} {error.message}", error.hint))
        return self._expanded(spot, spot.name)

    def _expanded(self, spot: Spot, label: str) -> str | None:
        """A string with its references to the environment resolved."""
        raw = expect.text(spot, self._faults)
        if raw is None:
            return None
        if "\0" in raw:
            self._faults.add(spot.fault(f"{spot.name} has a NUL character"))
            return None
        resolved = resolve(raw, self._around.environ)
        self._unresolved += [f"{label} {fault}" for fault in resolved.faults]
        self._secrets |= resolved.secrets
        return None if resolved.faults else resolved.value

    def _object(self, spot: Spot, label: str, objection: str) -> None:
        """A fault where the file says it so, a reason to do nothing where the environment does."""
        if "${" in spot.value:
            self._unresolved.append(f"{label} {objection}")
        else:
            self._faults.add(spot.fault(f"{spot.name} {objection}"))


def _as_written(spot: Spot) -> str:
    """What stands for a text that cannot be resolved: it is shown, and never used."""
    return str(spot.value)
