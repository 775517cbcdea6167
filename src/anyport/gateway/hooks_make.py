"""From the configuration of a hook to one that works, or to the reason why it cannot.

Imported with the first hook there is: a gateway without any starts faster without all this.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anyport.config.schema import HookConfig
from anyport.config.template import BadTemplate
from anyport.gateway.hooks_action import Action
from anyport.gateway.hooks_call import Call
from anyport.gateway.hooks_post import Post
from anyport.gateway.hooks_queue import Queue, World
from anyport.gateway.hooks_run import Run
from anyport.gateway.hooks_spool import Spool
from anyport.record.filter import BadFilter, Filter, parse_filter
from anyport.record.matching import Matcher, matcher
from anyport.upstream.http.place import BadUrl

if TYPE_CHECKING:
    from anyport.gateway.hooks import Means

SPOOL: Final = "spool"
"""A folder of the state directory."""

QUIET_TYPES: Final = frozenset({"gateway.exchange", "gateway.frame"})
"""There are many of these: they are only for hooks that ask for them by one of NAMING."""
NAMING: Final = frozenset({"type", "kind", "side", "method"})

SPOKEN_TYPES: Final = frozenset({"gateway.frame", "gateway.stderr"})
"""What a server says outside any call. It may be the call of a hook that it speaks about."""


class Hook:
    """One hook: its filter, and its queue."""

    def __init__(self, config: HookConfig, filter: Filter, queue: Queue) -> None:
        self.config = config
        self.queue = queue
        named = {term.key for term in filter.terms if not term.negated}
        self._matches: Matcher = matcher(filter)
        self._wants_pending = "status" in named
        self._wants_quiet = bool(named & NAMING)
        self.found: list[bytes] = []
        """Events of this turn that fit."""

    def fits(self, event: Mapping[str, Any], called: frozenset[str]) -> bool:
        """Whether an event sets it off; `called` are the servers that hooks call."""
        kind = event.get("event_type")
        if kind in QUIET_TYPES and not self._wants_quiet:
            return False
        # A call that takes a while is noted twice; whoever does not ask for that hears of its end.
        if event.get("status") == "pending" and not self._wants_pending:
            return False
        if kind in SPOKEN_TYPES and self.config.call is not None:
            metadata = event.get("metadata") or {}
            if metadata.get("server") in called:
                return False
        return self._matches(event)


def make(config: HookConfig, means: "Means", world: World) -> Hook | str:
    """The hook, or why there is none."""
    if config.unresolved:
        return "; ".join(config.unresolved)
    try:
        filter = parse_filter(config.on, means.now())
        action = _action(config, means)
    except (BadFilter, BadTemplate) as error:
        return f"it cannot be understood: {error.message}"
    except BadUrl as error:
        return f"post cannot be used: {error}"
    spool = None
    if config.post is not None:
        name = f"{int(means.now() * 1000):015d}-{means.random_bytes(4).hex()}"
        spool = Spool(spool_folder(means.state_dir / SPOOL, config), name)
    return Hook(config, filter, Queue(config.name, action, world, spool))


def spool_folder(root: Path, config: HookConfig) -> Path:
    """Where events for this hook and this URL wait.

    Several configurations may share a state directory, and have hooks of one name.
    """
    mark = hashlib.sha256((config.post or "").encode()).hexdigest()[:8]
    return root / f"{config.name}-{mark}"


def _action(config: HookConfig, means: "Means") -> Action:
    if config.post is not None:
        return Post(config, means.now)
    if config.run:
        return Run(config, means.warden, means.redact)
    return Call(config, means.profiles, means.begin)
