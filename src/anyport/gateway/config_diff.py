"""Differences between two configurations.

A reload acts on added, removed and changed servers; the other differences are reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from anyport.config.model import Config

STARTUP_ONLY_KEYS: Final = (("gateway", "listen"), ("telemetry", None))
"""Settings that take effect at the next start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDiff:
    """What has changed, by slug, in the order of the configuration."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    """Profiles that were added, removed or changed."""
    sections: tuple[str, ...] = ()
    """Other keys that differ, spelled as in the file: `gateway.listSeconds`."""
    at_start: tuple[str, ...] = ()
    """Those of `sections` that take effect at the next start."""

    def __bool__(self) -> bool:
        return any((self.added, self.removed, self.changed, self.profiles, self.sections))


def diff_configs(before: Config, after: Config) -> ConfigDiff:
    """What changes from one configuration to the other."""
    sections = tuple(_changed_sections(before, after))
    startup_only = {f"{section}.{key}" if key else section for section, key in STARTUP_ONLY_KEYS}
    return ConfigDiff(
        added=tuple(slug for slug in after.servers if slug not in before.servers),
        removed=tuple(slug for slug in before.servers if slug not in after.servers),
        changed=_changed_slugs(before.servers, after.servers),
        profiles=(
            *(slug for slug in after.profiles if slug not in before.profiles),
            *_changed_slugs(before.profiles, after.profiles),
            *(slug for slug in before.profiles if slug not in after.profiles),
        ),
        sections=sections,
        at_start=tuple(
            name
            for name in sections
            if name in startup_only or name.partition(".")[0] in startup_only
        ),
    )


def _changed_slugs(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(slug for slug in after if slug in before and after[slug] != before[slug])


def _changed_sections(before: Config, after: Config) -> list[str]:
    changed = [
        f"{section}.{_config_key(field.name)}"
        for section in ("gateway", "record", "telemetry")
        for field in fields(getattr(after, section))
        if getattr(getattr(before, section), field.name)
        != getattr(getattr(after, section), field.name)
    ]
    return [*changed, "hooks"] if before.hooks != after.hooks else changed


def _config_key(name: str) -> str:
    """A field in the spelling of the file."""
    first, *more = name.split("_")
    return first + "".join(map(str.capitalize, more))
