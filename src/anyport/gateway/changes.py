"""What differs between two configurations. Pure.

Which servers come, go or change is what a reload has to do; everything else is told to people.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from anyport.config.schema import Config

AT_START: Final = (("gateway", "listen"), ("telemetry", None))
"""What a running gateway cannot change: it holds from its next start on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """By slug, in the order of the configuration."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    """Those that came, went, or are defined differently."""
    sections: tuple[str, ...] = ()
    """Of the rest, the keys that differ, as the file has them: `gateway.listSeconds`."""
    at_start: tuple[str, ...] = ()
    """Of those, what holds from the next start on."""

    def __bool__(self) -> bool:
        return any((self.added, self.removed, self.changed, self.profiles, self.sections))


def changes(before: Config, after: Config) -> Changes:
    """What a gateway that runs with one would have to change for the other."""
    sections = tuple(_sections(before, after))
    fixed = {f"{section}.{key}" if key else section for section, key in AT_START}
    return Changes(
        added=tuple(slug for slug in after.servers if slug not in before.servers),
        removed=tuple(slug for slug in before.servers if slug not in after.servers),
        changed=_differing(before.servers, after.servers),
        profiles=(
            *(slug for slug in after.profiles if slug not in before.profiles),
            *_differing(before.profiles, after.profiles),
            *(slug for slug in before.profiles if slug not in after.profiles),
        ),
        sections=sections,
        at_start=tuple(
            name for name in sections if name in fixed or name.partition(".")[0] in fixed
        ),
    )


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(slug for slug in after if slug in before and after[slug] != before[slug])


def _sections(before: Config, after: Config) -> list[str]:
    found = [
        f"{section}.{_key(field.name)}"
        for section in ("gateway", "record", "telemetry")
        for field in fields(getattr(after, section))
        if getattr(getattr(before, section), field.name)
        != getattr(getattr(after, section), field.name)
    ]
    return [*found, "hooks"] if before.hooks != after.hooks else found


def _key(name: str) -> str:
    """A field, as the file calls it."""
    first, *more = name.split("_")
    return first + "".join(map(str.capitalize, more))
