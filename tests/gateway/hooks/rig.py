"""Hooks with a journal of their own and a receiver: what their tests are played on."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from anyport.config.model import HookConfig
from anyport.gateway.gateway import Gateway
from anyport.gateway.hooks.hooks import Hooks
from anyport.protocol.exchange import Exchange
from anyport.record.journal.journal import Journal
from anyport.upstream.stdio.process import ProcessSpawner
from tests.gateway.fakes import GroupClock
from tests.gateway.receiver import Receiver, receiver, until

TRACE = "a" * 32


class HooksClock(GroupClock):
    """Draws other bytes each time."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        super().__init__(group)
        self._numbers = iter(range(1, 10**6))

    def random_bytes(self, size: int) -> bytes:
        return next(self._numbers).to_bytes(size)


class Stage:
    """Hooks with a journal of their own and a receiver."""

    def __init__(self, path: Path, here: Receiver, group: asyncio.TaskGroup) -> None:
        self.here = here
        self.path = path
        self.begun: list[Exchange] = []
        self.process_spawner = ProcessSpawner()
        self.journal = Journal(path, source="test", now=time.time, redact=str)
        self.lines: list[dict[str, Any]] = []
        gateway = SimpleNamespace(
            journal=self.journal,
            clock=HooksClock(group),
            note=self._note,
            process_spawner=self.process_spawner,
            redact=str,
            profiles={},
            begin=self.begun.append,
        )
        self.hooks = Hooks(cast(Gateway, gateway), path)

    def _note(
        self,
        event: Any,
        status: Any = "success",
        /,
        *,
        error_message: str | None = None,
        **metadata: Any,
    ) -> None:
        trace_id = "f" * 32
        self.journal.record(
            event, status, trace_id=trace_id, metadata=metadata, error_message=error_message
        )

    def posting(self, name: str = "h", on: str = "type:*", **config: Any) -> HookConfig:
        return HookConfig(name=name, on=on, post=self.here.url, **config)

    def note(self, status: Any = "success", type: Any = "tool_call", **metadata: Any) -> None:
        kind: Any = f"gateway.{type}"
        self.journal.record(kind, status, trace_id=TRACE, metadata=metadata)

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
                await stage.process_spawner.close()

    return asyncio.run(whole())
