"""What a run needs is made from pinned versions, or asked for in plain words."""

import os
import re
import shutil

import pytest

from bench.prepare import LOCKS, Unprepared, pinned_version, require_tools


@pytest.mark.parametrize("name", LOCKS)
def test_lock_files_pin_by_hash_and_name_no_registry(name: str) -> None:
    text = LOCKS[name].read_text()

    assert "://" not in text
    for pin in re.split(r"\n(?=\w)", text.strip()):
        assert re.match(r"[\w.-]+==[\w.]+", pin), pin
        assert "--hash=sha256:" in pin, pin


def test_the_version_of_a_peer_is_told() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", pinned_version("mcp-proxy", "mcp-proxy"))
    assert pinned_version("mcp-proxy", "absent") == "?"


def test_a_missing_tool_is_named_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = shutil.which
    monkeypatch.setattr(
        shutil,
        "which",
        lambda name, **options: None if name == "wrk" else found("true", **options),
    )

    with pytest.raises(Unprepared, match=r"missing: wrk\. .*sudo apt-get install .* wrk"):
        require_tools()
