"""Filters of hooks: checked in a configuration, and asked of events."""

from typing import Any

import pytest

from anyport.config.model import HookConfig
from anyport.gateway.hooks.filters import HookFilter, check_hook_filter


def test_a_good_filter_is_not_objected_to() -> None:
    assert check_hook_filter("server:github status:error dur:>1s") is None


def test_a_bad_one_is_shown_with_a_caret_under_the_fault() -> None:
    objection = check_hook_filter("server:a dur:fast")

    assert objection is not None
    assert objection.message.startswith("Not a number")
    assert objection.excerpt == "server:a dur:fast\n             ^^^^"


def test_a_time_is_unwise_in_a_filter_of_what_happens_now() -> None:
    objection = check_hook_filter("since:1h -until:2020-01-01 since:2h")

    assert objection is not None
    assert objection.usable
    assert objection.message.startswith("there is no use for since: and until: in a hook")


def hook_filter(on: str, **config: Any) -> HookFilter:
    return HookFilter(HookConfig(name="h", on=on, **config), 0.0)


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
    assert hook_filter(on).matches(happened, frozenset()) is fits


def test_what_a_called_server_says_sets_off_only_what_does_not_call() -> None:
    said = event("stderr", server="s")

    assert not hook_filter("type:stderr", call=("t", "x")).matches(said, frozenset({"s", "t"}))
    assert hook_filter("type:stderr", call=("t", "x")).matches(said, frozenset({"t"}))
    assert hook_filter("type:stderr", run=("x",)).matches(said, frozenset({"s"}))
    assert hook_filter("server:s", call=("s", "x")).matches(event(server="s"), frozenset({"s"}))
