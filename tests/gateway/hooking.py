"""Hooks with a journal of their own and a receiver: what their tests are played on."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from anyport.config.schema import HookConfig
from anyport.gateway.hooks import Hooks, Means
from anyport.protocol.exchange import Exchange
from anyport.record.journal import Journal
from anyport.upstream.process import Warden
from tests.gateway.receiver import Receiver, receiver, until

TRACE = "a" * 32


class Stage:
    """Hooks with a journal of their own and a receiver."""

    def __init__(self, path: Path, here: Receiver, group: asyncio.TaskGroup) -> None:
        self.here = here
        self.path = path
        self.begun: list[Exchange] = []
        self.warden = Warden()
        self._group = group
        self.journal = Journal(path, source="test", clock=time.time, redact=str)
        self.lines: list[dict[str, Any]] = []
        self._random = iter(range(1, 10**6))
        self.hooks = Hooks(
            Means(
                journal=self.journal,
                state_dir=path,
                profiles={},
                begin=self.begun.append,
                warden=self.warden,
                redact=str,
                spawn=self._spawn,
                soon=asyncio.get_running_loop().call_soon,
                now=time.time,
                random_bytes=lambda size: next(self._random).to_bytes(size),
                trace_id="f" * 32,
            )
        )

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._group.create_task(work, name=name)

    def posting(self, name: str = "h", on: str = "type:*", **config: Any) -> HookConfig:
        return HookConfig(name=name, on=on, post=self.here.url, **config)

    def note(self, status: Any = "success", type: Any = "tool_call", **metadata: Any) -> None:
        kind: Any = f"gateway.{type}"
        self.journal.note(kind, status, trace_id=TRACE, metadata=metadata)

    @property
    def tools(self) -> list[str]:
        """Which events have come, by their tools."""
        return [event["metadata"].get("tool") for event in self.here.events]

    async def settled(self) -> None:
        """Wait until every event that was noted has come to its end."""
        await asyncio.sleep(0)  # For the turn of the loop in which they are looked at.
        reports = self.hooks.report
        await until(lambda: not any(each.get("waiting") for each in reports().values()))


Scene = Callable[[Stage], Coroutine[Any, Any, Any]]


def played(scene: Scene, path: Path, port: int = 0) -> Any:
    """Play a scene; hooks are stopped and closed after it."""

    async def whole() -> Any:
        async with asyncio.timeout(30), receiver(port) as here, asyncio.TaskGroup() as group:
            stage = Stage(path, here, group)
            try:
                return await scene(stage)
            finally:
                await stage.hooks.stop()
                stage.hooks.close()
                stage.journal.close()
                await stage.warden.close()

    return asyncio.run(whole())
