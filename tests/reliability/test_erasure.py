"""One person's payloads, erased while the gateway goes on: nothing of them is left anywhere.

Every figure is there twice: what a busy machine can prove on every commit, and what is proved in
full on one of its own.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from anyport.record.erasure import ErasureTotals, erase_payloads, match_payload_lines
from anyport.record.filter.parser import parse_filter
from anyport.record.tamper.verify import ExternalEvidence, verify
from tests.cli.running import Running, running
from tests.harness import DEMO, WAIT_SECONDS, write_config
from tests.rig.scale import scaled

CALLS: Final = scaled(40, full=10_000)
TOKENS: Final = {"alice": "token-of-alice-0123456789", "bob": "token-of-bob-0123456789"}
FAR_FUTURE: Final = 4_000_000_000.0

pytestmark = pytest.mark.slow


class Person:
    """Somebody with a token, who says things nobody else says."""

    def __init__(self, there: Running, name: str) -> None:
        self.name = name
        self._connection = there.connect()
        self._said = 0

    def speak(self, times: int) -> None:
        for _ in range(times):
            self._said += 1
            text = f"{self.name}-said-{self._said}-ü"
            params = {"name": "demo__echo", "arguments": {"text": text}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            fields = {
                "Authorization": f"Bearer {TOKENS[self.name]}",
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
            }
            self._connection.request("POST", "/mcp", json.dumps(message), fields)
            answer = self._connection.getresponse()
            assert f"{self.name}-said" in answer.read().decode()


@contextmanager
def recording(folder: Path) -> Iterator[tuple[Running, Path]]:
    config = write_config(
        folder, {"demo": DEMO}, record={"capture": "full"}, gateway={"tokens": TOKENS}
    )
    state = folder / "state"
    with running("--config", str(config), "--state-dir", str(state)) as there:
        yield there, state


def residue(state: Path, word: str) -> int:
    """How often a word stands in any file: journal, payloads, index and its side files."""
    files = [path for path in state.rglob("*") if path.is_file()]
    assert files
    return sum(path.read_bytes().count(word.encode()) for path in files)


def erase(state: Path, filter: str, now: float = 0.0) -> ErasureTotals:
    with match_payload_lines(state, parse_filter(filter, 0.0)) as doomed:
        return erase_payloads(state, doomed, now)


def asked(there: Running, filter: str) -> int:
    """How many rows match, which also brings the index up to date."""
    fields = {"Authorization": f"Bearer {TOKENS['bob']}"}
    rows, cursor = 0, ""
    while True:
        connection = there.connect()
        where = f"/api/v1/traffic?limit=1000&filter={filter}{cursor}"
        connection.request("GET", where, None, fields)
        page = json.loads(connection.getresponse().read())
        rows += len(page["rows"])
        if page["next_cursor"] is None:
            return rows
        cursor = f"&cursor={page['next_cursor']}"


def test_what_one_person_said_is_gone_and_the_journal_is_whole(tmp_path: Path) -> None:
    with recording(tmp_path) as (there, state):
        alice, bob = Person(there, "alice"), Person(there, "bob")
        for _ in range(2):
            alice.speak(CALLS // 2)
            bob.speak(CALLS // 2)
        assert asked(there, "principal:alice") == asked(there, "text:alice-said") == CALLS
        before = verify(state, ExternalEvidence())

        erased = erase(state, "principal:alice")

        assert erased.exchanges == CALLS
        assert residue(state, "alice-said") == 0
        assert residue(state, "bob-said") >= 2 * CALLS
        assert verify(state, ExternalEvidence()).records >= before.records
        assert asked(there, "principal:alice") == CALLS
        assert asked(there, "text:alice-said") == 0

        # The gateway goes on in the same files.
        alice.speak(1)
        bob.speak(1)
        assert asked(there, "text:alice-said") == 1
        there.process.terminate()
        assert there.process.wait(WAIT_SECONDS) == 0

    assert erase(state, "text:alice-said", FAR_FUTURE).exchanges == 1
    assert residue(state, "alice-said") == 0
    assert erase(state, "", FAR_FUTURE).files >= 1
    assert residue(state, "bob-said") == 0
    assert not list((state / "payloads").iterdir())
    assert verify(state, ExternalEvidence()).records
