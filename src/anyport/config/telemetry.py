"""The section about telemetry: whether spans and metrics are sent, where to, and how many.

What cannot be had from the environment switches telemetry off, with a warning: a gateway must not
stay down because nobody can watch it. What the environment says in the variables that all
programs with OpenTelemetry share is read later, by who sends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from anyport.config import expect
from anyport.config.document import Spot
from anyport.config.faults import Faults, shown
from anyport.config.reference import resolve
from anyport.config.schema import TelemetryConfig

TELEMETRY_KEYS: Final = ("enabled", "endpoint", "headers", "serviceName", "sample")

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x20\x7f]")


def telemetry(
    keys: Mapping[str, Spot], environ: Mapping[str, str], faults: Faults
) -> TelemetryConfig:
    """The section; worthless when it added to the faults."""
    return _Reader(keys, environ, faults).read()


class _Reader:
    def __init__(
        self, keys: Mapping[str, Spot], environ: Mapping[str, str], faults: Faults
    ) -> None:
        self._keys = keys
        self._environ = environ
        self._faults = faults
        self._missing = False
        self._secrets: set[str] = set()

    def read(self) -> TelemetryConfig:
        keys, faults = self._keys, self._faults
        # Whoever says where telemetry is to go wants it to go there.
        said = expect.boolean(keys["enabled"], faults) if "enabled" in keys else bool(keys)
        endpoint, headers, name = self._endpoint(), self._headers(), self._text("serviceName")
        sample = _share(keys["sample"], faults) if "sample" in keys else None
        return TelemetryConfig(
            enabled=bool(said) and not self._missing,
            endpoint=endpoint,
            headers=MappingProxyType(headers),
            name=name or None,
            sample=sample,
            secrets=frozenset(self._secrets - {""}),
        )

    def _endpoint(self) -> str | None:
        url = self._text("endpoint")
        if url is None or _is_address(url):
            return url
        hint = "such as http://localhost:4318; what it needs to know of you goes into headers"
        self._object(self._keys["endpoint"], "must be the address of a collector", hint)
        return None

    def _headers(self) -> dict[str, str]:
        spot = self._keys.get("headers")
        found: dict[str, str] = {}
        if spot is None or not expect.table(spot, self._faults):
            return found
        for name, member in spot.items():
            if not _TOKEN.fullmatch(name):
                message = f"{shown(name)} cannot be the name of a header"
                self._faults.add(member.key_fault(message, "use letters, digits and -"))
                continue
            value = self._resolved(member)
            if value is None:
                continue
            if not _FIELD_VALUE.fullmatch(value):
                self._object(member, "has a character no header can carry")
            found[name] = value
            # "Bearer x": x alone is the secret, and may turn up without the word before it.
            self._secrets |= {value, value.rpartition(" ")[2]}
        return found

    def _text(self, key: str) -> str | None:
        return self._resolved(self._keys[key]) if key in self._keys else None

    def _resolved(self, spot: Spot) -> str | None:
        """A string with its references resolved; None where it is none, or they are not."""
        raw = expect.text(spot, self._faults)
        if raw is None:
            return None
        found = resolve(raw, self._environ)
        self._secrets |= found.secrets
        for fault in found.faults:
            self._missing = True
            self._faults.warn(spot.fault(f"{spot.name} {fault}", "telemetry is off without it"))
        return None if found.faults else found.value

    def _object(self, spot: Spot, objection: str, hint: str = "") -> None:
        """A fault where the file says it so; where the environment does, no reason to stop."""
        if "${" in spot.value:
            self._missing = True
            self._faults.warn(spot.fault(f"{spot.name} {objection}", "telemetry is off"))
        else:
            self._faults.add(spot.fault(f"{spot.name} {objection}", hint))


def _share(spot: Spot, faults: Faults) -> float | None:
    value = spot.value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    hint = "0.1 keeps one trace in ten"
    faults.add(spot.fault(f"{spot.name} must be a number from 0 to 1", hint))
    return None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Reading the port judges it.
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    plain = parts.username is None and parts.password is None and not parts.query
    return good and plain and url.isascii() and not _UNPRINTABLE.search(url)
