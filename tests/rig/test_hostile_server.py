"""The hostile server is honest where it says so, in every era and on every transport."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import gateway
from tests.rig.probe import HOSTILE, text_of

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[2]


@contextmanager
def on_pipes(*words: str) -> Iterator[tuple[Any, str]]:
    yield [*HOSTILE, *words], "echo"


@contextmanager
def on_the_web(era: str) -> Iterator[tuple[Any, str]]:
    argv = [sys.executable, "-m", "tests.rig.hostile_http_server", era]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().decode().strip()
            transport = "sse" if era == "sse" else "streamable-http"
            yield {"url": url, "transport": transport}, "fine"
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("make", "kind", "era"),
    [
        (on_pipes, "", "legacy"),
        (on_pipes, "modern", "modern"),
        (on_the_web, "legacy", "legacy"),
        (on_the_web, "modern", "modern"),
        (on_the_web, "sse", "legacy"),
    ],
)
def test_it_is_found_called_and_misbehaves_in_every_way(
    tmp_path: Path, make: Callable[[str], Any], kind: str, era: str
) -> None:
    with (
        make(kind) as (entry, honest),
        gateway(tmp_path, {"bad": entry}, gateway={"listSeconds": 30}) as client,
    ):
        client.initialize()
        client.request("tools/list")
        assert text_of(client.call(f"bad__{honest}", {"text": "true"})) == "true"
        status = json.loads(text_of(client.call("gateway_status")))
        assert status["backends"]["bad"]["era"] == era
        assert text_of(client.call("bad__stray", {"count": 20})) == "mine"
        assert text_of(client.call("bad__chatter", {"count": 3, "size": 10})) == "that is all"
        assert not json.loads(text_of(client.call("bad__report")))["twice"]
        assert text_of(client.call(f"bad__{honest}", {"text": "still"})) == "still"
