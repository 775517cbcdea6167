"""Environment references in the strings of a configuration.

Supports the canonical form `${env:NAME | value:fallback}` and the dialects `${NAME}` and
`${NAME:-fallback}`. A reference that does not resolve is reported as a fault and removed from the
result. The fault names variables, but no values, fallbacks or unknown text: any of these may be a
secret.
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
"""Variables that only editors define; they are not in the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedText:
    """A text with its references replaced."""

    value: str
    names: tuple[str, ...] = ()
    """All environment variables that were looked up."""
    secrets: frozenset[str] = frozenset()
    """The values of these variables."""
    faults: tuple[str, ...] = ()


def resolve_references(text: str, environ: Mapping[str, str]) -> ResolvedText:
    """Replace every reference; a `$` that does not start one stays."""
    if "${" not in text:
        return ResolvedText(value=text)
    lookup = _Resolver(environ)
    value = _REFERENCE.sub(lambda found: lookup.replace(found[1], found[2]), text)
    return ResolvedText(
        value=value,
        names=tuple(dict.fromkeys(lookup.names)),
        secrets=frozenset(lookup.secrets),
        faults=tuple(dict.fromkeys(lookup.faults)),
    )


class _Resolver:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self.names: list[str] = []
        self.secrets: set[str] = set()
        self.faults: list[str] = []
        self._environ = environ

    def replace(self, body: str, close: str) -> str:
        if not close:
            return self._fail("has '${' without a closing '}'")
        shell = _SHELL.fullmatch(body)
        if shell:
            return self._resolve_shell(shell[1], shell[2])
        return self._resolve_chain(body)

    def _resolve_shell(self, name: str, fallback: str | None) -> str:
        if fallback is None and name in EDITOR_NAMES:
            return self._fail(f"uses ${{{name}}}, which only an editor fills in")
        value = self._read_variable(name)
        if value:
            return value
        return self._fail(self._explain_missing([name])) if fallback is None else fallback

    def _resolve_chain(self, body: str) -> str:
        missing: list[str] = []
        rest = body.strip()
        while rest:
            part, _, after = rest.partition("|")
            scheme = _SCHEME.fullmatch(part.strip())
            if scheme and scheme[1] == "value":
                # A value always resolves, so it is the last alternative and may contain a `|`.
                return rest.removeprefix("value:")
            if not scheme or scheme[1] != "env" or not scheme[2].strip():
                return self._fail(_explain_unknown_form(scheme))
            name = scheme[2].strip()
            value = self._read_variable(name)
            if value:
                return value
            missing.append(name)
            rest = after.strip()
        return self._fail(
            self._explain_missing(missing) if missing else "has an empty reference ${}"
        )

    def _read_variable(self, name: str) -> str:
        self.names.append(name)
        value = self._environ.get(name, "")
        if value:
            self.secrets.add(value)
        return value

    def _explain_missing(self, names: list[str]) -> str:
        if len(names) == 1:
            state = "empty" if names[0] in self._environ else "not set"
            return f"needs the environment variable {names[0]}, which is {state}"
        return f"needs one of the environment variables {', '.join(names)}; none has a value"

    def _fail(self, fault: str) -> str:
        self.faults.append(fault)
        return ""


def _explain_unknown_form(scheme: re.Match[str] | None) -> str:
    if scheme is None:
        return "has a reference in a form that is not understood; write ${env:NAME}"
    if scheme[1] == "input":
        return "asks for an input, which only an editor can ask for; write ${env:NAME} instead"
    if scheme[1] == "env":
        return "has ${env:} without a name"
    return f"has a reference of the unknown kind '{scheme[1]}:'; known are env: and value:"
