"""Events to actions: every event that fits a hook's filter sets it off.

The journal tells of an event; the filters are asked of it after the turn of the loop in which it
happened, and whatever is to be done is done in tasks of its own. Nothing that a client waits for
waits for a hook. Without hooks nobody listens, and nothing is spent.

What the hooks themselves cause never sets one off.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from anyport.config.schema import HookConfig, HooksMatch
from anyport.gateway.profile import Profile
from anyport.protocol.exchange import Exchange
from anyport.record.journal import Journal
from anyport.record.ration import Ration
from anyport.record.timekeeping import prudent
from anyport.upstream.process import Warden

if TYPE_CHECKING:
    from anyport.gateway.hooks_action import Occasion
    from anyport.gateway.hooks_make import Hook
    from anyport.gateway.hooks_queue import Queue

HEARD_EVENTS_MAX: Final = 10_000
"""That wait for the end of one turn of the loop; then they are looked at before it ends."""

OWN_SPANS_MAX: Final = 4096
"""Of what hooks did, remembered: what is caused by it comes soon or never."""

FAILURES_PER_SECOND_MAX: Final = 10
"""Of one hook that the journal keeps; all are counted."""

STOP_SECONDS_MAX: Final = 2.0
"""For what is under way when the gateway stops; the spool keeps the rest."""

POLL_SECONDS: Final = 0.01

HOOK_EVENTS: Final = "gateway.hook_"

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What hooks need from the gateway."""

    journal: Journal
    state_dir: Path
    profiles: Mapping[str, Profile]
    begin: Callable[[Exchange], None]
    warden: Warden
    redact: Callable[[str], str]
    spawn: Callable[[Coroutine[Any, Any, None], str], None]
    soon: Callable[[Callable[[], None]], object]
    """Runs something after this turn of the loop."""
    now: Callable[[], float]
    """The time of day."""
    random_bytes: Callable[[int], bytes]
    trace_id: str
    """Of what the gateway notes on its own account."""


class Hooks:
    """All hooks of a gateway."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._hooks: tuple[Hook, ...] = ()
        self._useless: dict[str, dict[str, Any]] = {}
        """What is told of those that cannot do anything: why."""
        self._called: frozenset[str] = frozenset()
        """The servers whose tools hooks call."""
        self._first = False
        self._heard: list[bytes] = []
        self._own: OrderedDict[str, None] = OrderedDict()
        """Spans of what hooks did, the newest last."""
        self._failures = Ration(FAILURES_PER_SECOND_MAX)
        self._unsubscribe: Callable[[], None] | None = None

    def replace(self, configs: Sequence[HookConfig], match: HooksMatch = "all") -> None:
        """Have these from now on. One that is the same as before goes on as it was."""
        self._sift()
        kept = {hook.config.name: hook for hook in self._hooks if hook.config in configs}
        for hook in self._hooks:
            if hook.config.name not in kept:
                hook.queue.close()
        self._useless = {}
        self._hooks = self._made(configs, kept)
        called = (hook.config.call for hook in self._hooks if hook.config.call is not None)
        self._called = frozenset(slug for slug, _ in called)
        self._first = match == "first"
        if self._hooks and self._unsubscribe is None:
            self._unsubscribe = self._means.journal.subscribe(self._hear)
        elif not self._hooks:
            self._be_deaf()

    async def stop(self) -> None:
        """Let what is under way come to an end; from now on events are only kept for later."""
        self._sift()
        queues = [hook.queue for hook in self._hooks]
        loop = asyncio.get_running_loop()
        over = loop.time() + STOP_SECONDS_MAX
        while any(queue.busy for queue in queues) and loop.time() < over:
            await asyncio.sleep(POLL_SECONDS)
        for queue in queues:
            queue.halt()

    def close(self) -> None:
        """Hear nothing more, and let go of everything."""
        self._sift()
        self._be_deaf()
        for hook in self._hooks:
            hook.queue.close()
        self._hooks = ()

    @property
    def posting(self) -> bool:
        """Whether any of them sends events to a URL."""
        return any(hook.config.post is not None for hook in self._hooks)

    def report(self) -> dict[str, dict[str, Any]]:
        """How each is doing."""
        working = {hook.config.name: hook.queue.report() for hook in self._hooks}
        return working | self._useless

    def _made(
        self, configs: Sequence[HookConfig], kept: Mapping[str, "Hook"]
    ) -> "tuple[Hook, ...]":
        if not configs:
            return ()
        # Only here: a gateway without hooks starts faster without all that they need.
        from anyport.gateway.hooks_make import SPOOL, make  # noqa: PLC0415
        from anyport.gateway.hooks_queue import World, idle_report  # noqa: PLC0415
        from anyport.gateway.hooks_spool import clear_old  # noqa: PLC0415

        means = self._means
        world = World(
            spawn=means.spawn,
            chance=lambda: int.from_bytes(means.random_bytes(2)) / 0xFFFF,
            clock=means.now,
            sleep=asyncio.sleep,
            span_id=self._span_id,
            note_failed=self._note_failed,
            note_dropped=self._note_dropped,
        )
        hooks: list[Hook] = []
        for config in configs:
            hook = kept.get(config.name) or make(config, means, world)
            if isinstance(hook, str):
                self._useless[config.name] = idle_report(config.action, hook)
                continue
            hooks.append(hook)
            if config.name not in kept:
                hook.queue.recall(prudent(means.state_dir, means.now()))
        clear_old(means.state_dir / SPOOL, prudent(means.state_dir, means.now()))
        return tuple(hooks)

    def _hear(self, line: bytes) -> None:
        self._heard.append(line)
        if len(self._heard) == 1:
            self._means.soon(self._sift)
        elif len(self._heard) >= HEARD_EVENTS_MAX:
            self._sift()

    def _sift(self) -> None:
        """Give every hook the events that are for it."""
        heard, self._heard = self._heard, []
        for line in heard:
            event = _decode(line)
            if self._is_own(event):
                continue
            for hook in self._hooks:
                if hook.fits(event, self._called):
                    hook.found.append(line)
                    if self._first:
                        break
        for hook in self._hooks if heard else ():
            if hook.found:
                found, hook.found = hook.found, []
                hook.queue.take(found)

    def _is_own(self, event: Mapping[str, Any]) -> bool:
        """Whether a hook was the cause of it."""
        if event["event_type"].startswith(HOOK_EVENTS):
            return True
        return event["metadata"].get("parent_span_id") in self._own

    def _span_id(self) -> str:
        span_id = self._means.random_bytes(8).hex()
        self._own[span_id] = None
        if len(self._own) > OWN_SPANS_MAX:
            self._own.popitem(last=False)
        return span_id

    def _be_deaf(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _note_failed(self, queue: "Queue", occasion: "Occasion", words: str) -> None:
        if not self._failures.take(queue.name, 1, self._means.now()):
            return
        event = occasion.event()
        self._means.journal.note(
            "gateway.hook_failed",
            "failure",
            trace_id=str(event["trace_id"]),
            metadata={
                "hook": queue.name,
                "action": queue.action.kind,
                "key": occasion.key,
                "about": str(event["event_type"]),
            },
            error_message=words,
        )

    def _note_dropped(self, queue: "Queue", count: int) -> None:
        self._means.journal.note(
            "gateway.hook_dropped",
            "failure",
            trace_id=self._means.trace_id,
            metadata={"hook": queue.name, "action": queue.action.kind, "dropped": count},
            error_message="the hook was too slow for the events that it is for",
        )
