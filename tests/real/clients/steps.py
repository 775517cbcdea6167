"""What the Python clients have in common: steps in, observations out, canned answers.

Runs inside the environments of the SDKs, so it uses the standard library alone, and it knows
no SDK: everything here is plain JSON. The format is told in `tests/real/rig.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SAMPLE = {
    "role": "assistant",
    "model": "canned-model",
    "content": {"type": "text", "text": "canned sample"},
    "stopReason": "endTurn",
}
ROOTS = {"roots": [{"uri": "file:///tmp/canned", "name": "canned"}]}
WAIT_SECONDS_MAX = 120
"""Longer than any server takes to notify on any machine, shorter than the patience of a test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    steps: Sequence[Mapping[str, Any]]
    target: Sequence[str]
    """A command line, or the one URL of a server that is running already."""
    mode: str

    @property
    def url(self) -> str | None:
        return self.target[0] if self.target[0].startswith("http://") else None

    @property
    def over_sse(self) -> bool:
        """Whether the URL is one of HTTP+SSE, by the custom of how those end."""
        return self.url is not None and self.url.endswith("/sse")


def read_task() -> Task:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", help="the steps as JSON; from stdin when absent")
    parser.add_argument("--mode", default="auto", help="auto, legacy, or a modern revision")
    parser.add_argument("target", nargs="+", help="the command line of a server, or its URL")
    arguments = parser.parse_args()
    steps = json.loads(arguments.steps if arguments.steps is not None else sys.stdin.read())
    return Task(steps=steps, target=arguments.target, mode=arguments.mode)


@dataclass(slots=True)
class Report:
    """Writes observations and remembers notifications until somebody waits for them."""

    step: int = -1
    unclaimed: list[dict[str, Any]] = field(default_factory=list)
    arrival: asyncio.Event = field(default_factory=asyncio.Event)

    def saw(self, what: str, /, **facts: Any) -> None:
        present = {name: fact for name, fact in facts.items() if fact is not None}
        line = json.dumps({"saw": what, "step": self.step, **present}, ensure_ascii=False)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def notified(self, method: str, params: Any) -> None:
        self.saw("notified", method=method, params=params)
        self.unclaimed.append({"method": method, "params": params})
        self.arrival.set()

    async def wait_notification(self, method: str, uri: str | None) -> bool:
        """Wait for a notification that came since the start and was not waited for before."""
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while not self._claim(method, uri):
                    self.arrival.clear()
                    await self.arrival.wait()
        except TimeoutError:
            self.saw("missed", method=method)
            return False
        self.saw("waited", method=method)
        return True

    def _claim(self, method: str, uri: str | None) -> bool:
        for index, notification in enumerate(self.unclaimed):
            params = notification["params"] or {}
            if notification["method"] == method and uri in (None, params.get("uri")):
                del self.unclaimed[index]
                return True
        return False


def elicitation_answer(params: Mapping[str, Any]) -> dict[str, Any]:
    """Accept; in a form, fill in what is required and nothing else."""
    if params.get("mode") == "url":
        return {"action": "accept"}
    schema = params["requestedSchema"]
    properties = schema["properties"]
    content = {name: _filled_in(properties[name]) for name in schema.get("required", [])}
    return {"action": "accept", "content": content}


def _filled_in(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if "oneOf" in schema:
        return schema["oneOf"][0]["const"]
    plain = {"string": "canned", "number": 1, "integer": 1, "boolean": True, "array": []}
    return plain[schema["type"]]
