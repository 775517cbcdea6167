"""References to the environment inside the strings of a configuration.

Knows the canonical form `${env:NAME | value:fallback}` and the dialects `${NAME}` and
`${NAME:-fallback}`. Never raises and never leaves a reference standing in the result: what does
not resolve is a sentence among the faults. A sentence names variables, never their values, nor
fallbacks, nor text it does not understand, for any of these may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_REFERENCE: Final = re.compile(r"\$\{([^}]*)(\}?)")
_SHELL: Final = re.compile(r"([A-Za-z_]\w*)(?::-(.*))?", re.ASCII | re.DOTALL)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)

EDITOR_NAMES: Final = frozenset(
    {"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator"}
)
"""Variables that editors fill in for themselves; no environment has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A text without references, and what was met on the way."""

    value: str
    names: tuple[str, ...] = ()
    """Every environment variable that was asked for."""
    secrets: frozenset[str] = frozenset()
    """What the environment answered."""
    faults: tuple[str, ...] = ()


def resolve(text: str, environ: Mapping[str, str]) -> Resolved:
    """The text with every reference replaced; a `$` that starts no reference stays as it is."""
    if "${" not in text:
        return Resolved(value=text)
    lookup = _Lookup(environ)
    value = _REFERENCE.sub(lambda found: lookup.replacement(found[1], found[2]), text)
    return Resolved(
        value=value,
        names=tuple(dict.fromkeys(lookup.names)),
        secrets=frozenset(lookup.secrets),
        faults=tuple(dict.fromkeys(lookup.faults)),
    )


class _Lookup:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self.names: list[str] = []
        self.secrets: set[str] = set()
        self.faults: list[str] = []
        self._environ = environ

    def replacement(self, body: str, close: str) -> str:
        if not close:
            return self._nothing("has '${' without a closing '}'")
        shell = _SHELL.fullmatch(body)
        if shell:
            return self._shell(shell[1], shell[2])
        return self._chain(body)

    def _shell(self, name: str, fallback: str | None) -> str:
        if fallback is None and name in EDITOR_NAMES:
            return self._nothing(f"uses ${{{name}}}, which only an editor fills in")
        value = self._variable(name)
        if value:
            return value
        return self._nothing(self._missing([name])) if fallback is None else fallback

    def _chain(self, body: str) -> str:
        missing: list[str] = []
        rest = body.strip()
        while rest:
            part, _, after = rest.partition("|")
            scheme = _SCHEME.fullmatch(part.strip())
            if scheme and scheme[1] == "value":
                # A value always resolves, so it is the last alternative and may hold a `|`.
                return rest.removeprefix("value:")
            if not scheme or scheme[1] != "env" or not scheme[2].strip():
                return self._nothing(_misunderstood(scheme))
            name = scheme[2].strip()
            value = self._variable(name)
            if value:
                return value
            missing.append(name)
            rest = after.strip()
        return self._nothing(self._missing(missing) if missing else "has an empty reference ${}")

    def _variable(self, name: str) -> str:
        self.names.append(name)
        value = self._environ.get(name, "")
        if value:
            self.secrets.add(value)
        return value

    def _missing(self, names: list[str]) -> str:
        if len(names) == 1:
            state = "empty" if names[0] in self._environ else "not set"
            return f"needs the environment variable {names[0]}, which is {state}"
        return f"needs one of the environment variables {', '.join(names)}; none has a value"

    def _nothing(self, fault: str) -> str:
        self.faults.append(fault)
        return ""


def _misunderstood(scheme: re.Match[str] | None) -> str:
    if scheme is None:
        return "has a reference in a form that is not understood; write ${env:NAME}"
    if scheme[1] == "input":
        return "asks for an input, which only an editor can ask for; write ${env:NAME} instead"
    if scheme[1] == "env":
        return "has ${env:} without a name"
    return f"has a reference of the unknown kind '{scheme[1]}:'; known are env: and value:"
