"""From configuration to hook: what is for whom, and where its events wait."""

from pathlib import Path
from typing import Any, cast

import pytest

from anyport.config.schema import HookConfig
from anyport.gateway.hooks_make import Hook, spool_folder
from anyport.record.filter import parse_filter


def hook(on: str, **config: Any) -> Hook:
    made = HookConfig(name="h", on=on, **config)
    return Hook(made, parse_filter(on, 0.0), cast(Any, None))


def event(kind: str = "tool_call", status: str = "success", **metadata: Any) -> dict[str, Any]:
    return {"event_type": f"gateway.{kind}", "status": status, "metadata": metadata}


@pytest.mark.parametrize(
    ("on", "happened", "fits"),
    [
        ("server:s", event(server="s"), True),
        ("server:s", event(server="t"), False),
        ("server:s", event(status="pending", server="s"), False),
        ("status:pending", event(status="pending"), True),
        ("-status:success", event(status="pending"), False),
        ("server:s", event("frame", server="s"), False),
        ("type:*", event("frame", server="s"), True),
        ("method:ping", event("exchange", method="ping"), True),
        ("-method:ping", event("exchange", method="x"), False),
    ],
)
def test_which_events_set_a_hook_off(on: str, happened: dict[str, Any], fits: bool) -> None:
    assert hook(on).fits(happened, frozenset()) is fits


def test_what_a_called_server_says_sets_off_only_what_does_not_call() -> None:
    said = event("stderr", server="s")

    assert not hook("type:stderr", call=("t", "x")).fits(said, frozenset({"s", "t"}))
    assert hook("type:stderr", call=("t", "x")).fits(said, frozenset({"t"}))
    assert hook("type:stderr", run=("x",)).fits(said, frozenset({"s"}))
    assert hook("server:s", call=("s", "x")).fits(event(server="s"), frozenset({"s"}))


def test_the_folder_of_a_hook_is_that_of_its_name_and_url_and_shows_no_secret() -> None:
    one = spool_folder(Path("x"), HookConfig(name="h", on="x", post="https://e.com/s3cret"))
    two = spool_folder(Path("x"), HookConfig(name="h", on="y", post="https://e.com/s3cret"))
    three = spool_folder(Path("x"), HookConfig(name="h", on="x", post="https://e.com/other"))

    assert one == two != three
    assert one.name.startswith("h-")
    assert "s3cret" not in one.name
