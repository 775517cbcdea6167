"""Filters of hooks: checked when a configuration is loaded, then asked of every event.

The filter language is imported when the first filter is read. Every command imports this module,
and most configurations have no hooks.
"""

from collections.abc import Mapping
from typing import Any, Final

from anyport.config.hooks import FilterObjection
from anyport.config.model import HookConfig

TIME_KEYS: Final = frozenset({"since", "until"})
"""Keys that select events by time. They are of no use in a hook, which sees only new events."""

FREQUENT_TYPES: Final = frozenset({"gateway.exchange", "gateway.frame"})
"""Event types that are too frequent to match by accident: a filter has to ask for them."""
TYPE_FILTER_KEYS: Final = frozenset({"type", "kind", "side", "method"})
"""Keys that ask for frequent types."""

SERVER_MESSAGE_TYPES: Final = frozenset({"gateway.frame", "gateway.stderr"})
"""What a server sends outside any call. A hook's own call may have caused it."""


def check_hook_filter(text: str) -> FilterObjection | None:
    """What is wrong with the filter of a hook."""
    from anyport.record.filter.parser import BadFilter, parse_filter  # noqa: PLC0415

    try:
        filter = parse_filter(text, 0.0)
    except BadFilter as error:
        excerpt = str(error).partition("\n")[2]
        return FilterObjection(message=error.message, excerpt=excerpt)
    time_keys = list(dict.fromkeys(term.key for term in filter.terms if term.key in TIME_KEYS))
    if not time_keys:
        return None
    names = " and ".join(f"{key}:" for key in time_keys)
    message = f"there is no use for {names} in a hook, which sees only what happens from now on"
    return FilterObjection(message=message, hint="remove it", usable=True)


class HookFilter:
    """Decides which events trigger one hook."""

    def __init__(self, config: HookConfig, now: float) -> None:
        """Compile the filter.

        Raises:
            BadFilter: the filter cannot be parsed.
        """
        from anyport.record.filter.match import compile_filter  # noqa: PLC0415
        from anyport.record.filter.parser import parse_filter  # noqa: PLC0415

        filter = parse_filter(config.on, now)
        asked_keys = {term.key for term in filter.terms if not term.negated}
        self._matches = compile_filter(filter)
        self._makes_calls = config.call is not None
        self._wants_pending = "status" in asked_keys
        self._wants_frequent = bool(asked_keys & TYPE_FILTER_KEYS)

    def matches(self, event: Mapping[str, Any], called_servers: frozenset[str]) -> bool:
        """Whether an event triggers the hook; `called_servers` are the servers that hooks call."""
        event_type = event.get("event_type")
        if event_type in FREQUENT_TYPES and not self._wants_frequent:
            return False
        # A slow call is recorded twice: pending, then with its outcome. Hooks get the outcome.
        if event.get("status") == "pending" and not self._wants_pending:
            return False
        # A hook that calls a tool must not be triggered by what that call makes its server say.
        if event_type in SERVER_MESSAGE_TYPES and self._makes_calls:
            metadata = event.get("metadata") or {}
            if metadata.get("server") in called_servers:
                return False
        return self._matches(event)
