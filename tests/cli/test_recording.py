from pathlib import Path
from types import SimpleNamespace
from typing import cast

from anyport.cli.recording import obstacle
from anyport.gateway.runtime import Gateway
from tests.record.story import note, opened


def gateway(path: Path, on_failure: str) -> Gateway:
    journal = opened(path)
    journal.on_failure = on_failure
    note(journal)
    return cast(Gateway, SimpleNamespace(journal=journal))


def test_a_gateway_that_can_record_may_begin(tmp_path: Path) -> None:
    assert obstacle(gateway(tmp_path, "block")) is None


def test_one_that_cannot_does_not_begin_if_it_must(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"in the way")
    words = obstacle(gateway(tmp_path, "block"))
    assert words is not None
    assert 'record.onFailure is "block"' in words
    assert obstacle(gateway(tmp_path, "degrade")) is None
