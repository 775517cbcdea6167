"""Hooks: every event that matches a hook's filter triggers its action.

The journal hands over each event. Filters run after the turn of the event loop in which the event
happened, and actions run in tasks of their own, so no client ever waits for a hook. Without hooks
nothing subscribes to the journal, and nothing is spent.

Calls that hooks make never trigger a hook.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from anyport.config.model import HookConfig, HooksMatch
from anyport.config.templates import BadTemplate
from anyport.gateway.hooks.filters import HookFilter
from anyport.observe.call_events import HOOK_TRANSPORT
from anyport.record.wall_clock import expiry_time

if TYPE_CHECKING:
    from anyport.gateway.gateway import Gateway
    from anyport.gateway.hooks.actions import HookAction
    from anyport.gateway.hooks.queue import HookQueue, HookRecorder

PENDING_EVENTS_MAX: Final = 10_000
"""Events of one turn of the event loop; more are dispatched before the turn ends."""

STOP_SECONDS_MAX: Final = 2.0
"""How long actions may go on when the gateway stops; the spool keeps the rest."""

POLL_SECONDS: Final = 0.01

HOOK_EVENT_PREFIX: Final = "gateway.hook_"

SPOOL_FOLDER: Final = "spool"
"""A folder of the state directory."""

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Hook:
    """One hook: its filter and its queue."""

    def __init__(self, config: HookConfig, filter: HookFilter, queue: "HookQueue") -> None:
        self.config = config
        self.filter = filter
        self.queue = queue
        self.matched_lines: list[bytes] = []
        """Events of this turn that are about to be queued."""


class Hooks:
    """All hooks of a gateway."""

    def __init__(self, gateway: "Gateway", state_dir: Path) -> None:
        self._gateway = gateway
        self._journal = gateway.journal
        self._clock = gateway.clock
        self._state_dir = state_dir
        self._hooks: tuple[Hook, ...] = ()
        self._unusable: dict[str, dict[str, Any]] = {}
        """Reports on hooks that cannot work, by name."""
        self._called_servers: frozenset[str] = frozenset()
        """The servers whose tools hooks call."""
        self._first_match_only = False
        self._pending_lines: list[bytes] = []
        self._unsubscribe: Callable[[], None] | None = None

    def replace(self, configs: Sequence[HookConfig], match: HooksMatch = "all") -> None:
        """Replace all hooks; one whose configuration is unchanged keeps its queue."""
        self._dispatch()
        kept = {hook.config.name: hook for hook in self._hooks if hook.config in configs}
        for hook in self._hooks:
            if hook.config.name not in kept:
                hook.queue.close()
        self._unusable = {}
        self._hooks = self._build(configs, kept) if configs else ()
        called = (hook.config.call for hook in self._hooks if hook.config.call is not None)
        self._called_servers = frozenset(slug for slug, _ in called)
        self._first_match_only = match == "first"
        if self._hooks and self._unsubscribe is None:
            self._unsubscribe = self._journal.subscribe(self._on_event)
        elif not self._hooks:
            self._stop_listening()

    async def stop(self) -> None:
        """Let running actions finish; from now on events are only spooled."""
        self._dispatch()
        queues = [hook.queue for hook in self._hooks]
        deadline = self._clock.monotonic() + STOP_SECONDS_MAX
        while any(queue.is_busy for queue in queues) and self._clock.monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS)
        for queue in queues:
            queue.stop()

    def close(self) -> None:
        """Stop listening, and close every queue."""
        self._dispatch()
        self._stop_listening()
        for hook in self._hooks:
            hook.queue.close()
        self._hooks = ()

    @property
    def has_post(self) -> bool:
        """Whether a hook posts events to a URL."""
        return any(hook.config.post is not None for hook in self._hooks)

    def report(self) -> dict[str, dict[str, Any]]:
        """The state of each hook, for `gateway_status`."""
        working = {hook.config.name: hook.queue.report() for hook in self._hooks}
        return working | self._unusable

    def _build(self, configs: Sequence[HookConfig], kept: Mapping[str, Hook]) -> tuple[Hook, ...]:
        # Imported here: a gateway without hooks starts faster without an HTTP client and the rest.
        from anyport.gateway.hooks.queue import HookRecorder, clear_old, idle_report  # noqa: PLC0415

        recorder = HookRecorder(self._journal, self._clock, self._gateway.note)
        expiry = expiry_time(self._state_dir, self._clock.now())
        hooks: list[Hook] = []
        for config in configs:
            hook = kept.get(config.name) or self._make_hook(config, recorder)
            if isinstance(hook, str):
                self._unusable[config.name] = idle_report(config.action, hook)
                continue
            hooks.append(hook)
            if config.name not in kept:
                hook.queue.adopt_spooled(expiry)
        clear_old(self._state_dir / SPOOL_FOLDER, expiry)
        return tuple(hooks)

    def _make_hook(self, config: HookConfig, recorder: "HookRecorder") -> Hook | str:
        """A hook, or why it cannot work."""
        from anyport.gateway.hooks.queue import HookQueue, Spool  # noqa: PLC0415
        from anyport.record.filter.parser import BadFilter  # noqa: PLC0415
        from anyport.upstream.http.url import BadUrl  # noqa: PLC0415

        if config.unresolved:
            return "; ".join(config.unresolved)
        now = self._clock.now()
        try:
            filter = HookFilter(config, now)
            action = self._make_action(config)
        except (BadFilter, BadTemplate) as error:
            return f"it cannot be understood: {error.message}"
        except BadUrl as error:
            return f"post cannot be used: {error}"
        spool = None
        if config.post is not None:
            name = f"{int(now * 1000):015d}-{self._clock.random_bytes(4).hex()}"
            spool = Spool(spool_folder(self._state_dir / SPOOL_FOLDER, config), name)
        return Hook(config, filter, HookQueue(config.name, action, self._clock, recorder, spool))

    def _make_action(self, config: HookConfig) -> "HookAction":
        from anyport.gateway.hooks.actions import CallAction, PostAction, RunAction  # noqa: PLC0415

        gateway = self._gateway
        if config.post is not None:
            return PostAction(config, self._clock)
        if config.run:
            return RunAction(config, gateway.process_spawner, gateway.redact)
        return CallAction(config, gateway.profiles, gateway.begin)

    def _on_event(self, line: bytes) -> None:
        self._pending_lines.append(line)
        if len(self._pending_lines) == 1:
            self._clock.soon(self._dispatch)
        elif len(self._pending_lines) >= PENDING_EVENTS_MAX:
            self._dispatch()

    def _dispatch(self) -> None:
        """Queue the events of this turn at the hooks that they match."""
        lines, self._pending_lines = self._pending_lines, []
        for line in lines:
            event = _decode(line)
            if _is_hook_event(event):
                continue
            for hook in self._hooks:
                if hook.filter.matches(event, self._called_servers):
                    hook.matched_lines.append(line)
                    if self._first_match_only:
                        break
        for hook in self._hooks if lines else ():
            if hook.matched_lines:
                matched, hook.matched_lines = hook.matched_lines, []
                hook.queue.add(matched)

    def _stop_listening(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None


def spool_folder(root: Path, config: HookConfig) -> Path:
    """Where events for this hook and this URL are spooled.

    Several configurations may share a state directory, and have hooks of the same name.
    """
    url_hash = hashlib.sha256((config.post or "").encode()).hexdigest()[:8]
    return root / f"{config.name}-{url_hash}"


def _is_hook_event(event: Mapping[str, Any]) -> bool:
    """Whether an event is about a hook, or about a call that a hook made: that would be a loop."""
    if event["event_type"].startswith(HOOK_EVENT_PREFIX):
        return True
    # The transport cannot be forged: an ingress sets it. A trace id can.
    return bool(event["metadata"].get("client_transport") == HOOK_TRANSPORT)
