"""The `[telemetry]` section: export of spans and metrics to an OpenTelemetry collector.

A reference that does not resolve switches telemetry off, with a warning: a gateway must start even
if it cannot be monitored. The exporter itself reads the `OTEL_…` variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from anyport.config import values
from anyport.config.document import ConfigNode
from anyport.config.faults import ConfigFaults, quote_name
from anyport.config.model import TelemetryConfig
from anyport.config.references import resolve_references

TELEMETRY_KEYS: Final = ("enabled", "endpoint", "headers", "serviceName", "sample")

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x20\x7f]")


def read_telemetry(
    keys: Mapping[str, ConfigNode], environ: Mapping[str, str], faults: ConfigFaults
) -> TelemetryConfig:
    """Read the section. The result is unusable if it adds faults."""
    return _TelemetryReader(keys, environ, faults).read()


class _TelemetryReader:
    def __init__(
        self, keys: Mapping[str, ConfigNode], environ: Mapping[str, str], faults: ConfigFaults
    ) -> None:
        self._keys = keys
        self._environ = environ
        self._faults = faults
        self._missing = False
        self._secrets: set[str] = set()

    def read(self) -> TelemetryConfig:
        keys, faults = self._keys, self._faults
        # Any setting of the section enables telemetry, unless `enabled` says otherwise.
        enabled = values.read_boolean(keys["enabled"], faults) if "enabled" in keys else bool(keys)
        endpoint, headers, name = self._endpoint(), self._headers(), self._text("serviceName")
        sample = _read_ratio(keys["sample"], faults) if "sample" in keys else None
        return TelemetryConfig(
            enabled=bool(enabled) and not self._missing,
            endpoint=endpoint,
            headers=MappingProxyType(headers),
            name=name or None,
            sample=sample,
            secrets=frozenset(self._secrets - {""}),
        )

    def _endpoint(self) -> str | None:
        url = self._text("endpoint")
        if url is None or _is_endpoint_url(url):
            return url
        hint = "such as http://localhost:4318; what it needs to know of you goes into headers"
        self._report(self._keys["endpoint"], "must be the address of a collector", hint)
        return None

    def _headers(self) -> dict[str, str]:
        node = self._keys.get("headers")
        found: dict[str, str] = {}
        if node is None or not values.check_table(node, self._faults):
            return found
        for name, member in node.items():
            if not _TOKEN.fullmatch(name):
                message = f"{quote_name(name)} cannot be the name of a header"
                self._faults.add(member.key_fault(message, "use letters, digits and -"))
                continue
            value = self._resolve(member)
            if value is None:
                continue
            if not _FIELD_VALUE.fullmatch(value):
                self._report(member, "has a character no header can carry")
            found[name] = value
            # "Bearer x": x alone is the secret, and may turn up without the word before it.
            self._secrets |= {value, value.rpartition(" ")[2]}
        return found

    def _text(self, key: str) -> str | None:
        return self._resolve(self._keys[key]) if key in self._keys else None

    def _resolve(self, node: ConfigNode) -> str | None:
        """A string with its references resolved; None if it is no string or one is missing."""
        raw = values.read_text(node, self._faults)
        if raw is None:
            return None
        found = resolve_references(raw, self._environ)
        self._secrets |= found.secrets
        for fault in found.faults:
            self._missing = True
            self._faults.warn(node.fault(f"{node.name} {fault}", "telemetry is off without it"))
        return None if found.faults else found.value

    def _report(self, node: ConfigNode, objection: str, hint: str = "") -> None:
        """Report a fault in the file; if a reference is involved, only a warning."""
        if "${" in node.value:
            self._missing = True
            self._faults.warn(node.fault(f"{node.name} {objection}", "telemetry is off"))
        else:
            self._faults.add(node.fault(f"{node.name} {objection}", hint))


def _read_ratio(node: ConfigNode, faults: ConfigFaults) -> float | None:
    value = node.value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    hint = "0.1 keeps one trace in ten"
    faults.add(node.fault(f"{node.name} must be a number from 0 to 1", hint))
    return None


def _is_endpoint_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Reading the port validates it.
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    plain = parts.username is None and parts.password is None and not parts.query
    return is_http and plain and url.isascii() and not _UNPRINTABLE.search(url)
