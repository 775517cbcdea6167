"""What `gateway_status` says."""

import ast
import re
from pathlib import Path
from typing import Any, cast

import pytest

from anyport.config.schema import TelemetryConfig
from anyport.gateway import status
from anyport.gateway.hooks import Hooks
from anyport.gateway.status import backend_status, event_monitoring, gateway_status
from anyport.gateway.telemetry import Telemetry
from anyport.protocol.method import Kind
from anyport.record.journal import Journal
from anyport.routing.offers import Listing
from anyport.upstream.tender import State
from tests.gateway.fakes import FakeServer, profile_of
from tests.gateway.test_reason import server

PAGE = (Path(__file__).parents[2] / "docs" / "status.md").read_text("utf-8")


def report(path: Path, *servers: FakeServer) -> dict[str, Any]:
    journal = Journal(path, source="test", clock=lambda: 0.0, redact=str)
    return gateway_status(profile_of(*servers), journal, uptime_seconds=12.34567, debug=False)


def test_the_gateway_says_how_it_is_configured(tmp_path: Path) -> None:
    told = report(tmp_path)["gateway"]

    assert told["name"] == "anyport"
    assert told["uptime_s"] == 12.346
    config = told["config"]
    assert (config["profile"], config["prefix"], config["separator"]) == ("default", "always", "__")
    assert (config["errors"], config["debug"]) == ("context", False)
    assert told["event_monitoring"]["enabled"] is True
    assert told["event_monitoring"]["lost"] == 0


def test_a_server_says_what_it_offers_and_speaks(tmp_path: Path) -> None:
    server = FakeServer("s")
    server.offer(Kind.TOOLS, "a", "b")
    server.offer(Kind.RESOURCES, "x:1")

    told = report(tmp_path, server)

    about = told["backends"]["s"]
    assert about["namespace"] == "s"
    assert about["tool_count"] == 2
    assert (about["era"], about["revision"]) == ("legacy", "2025-11-25")
    assert about["transport"] == "stdio"
    assert about["last_error"] is None
    assert told["capabilities"] == {
        "tools": 4,
        "resources": 1,
        "resource_templates": 0,
        "prompts": 0,
    }


def test_a_server_that_is_down_says_why_and_that_its_list_is_old(tmp_path: Path) -> None:
    server = FakeServer("s", None)
    server.offer(Kind.TOOLS, "a")
    server.last_error = "exit code 1"

    about = report(tmp_path, server)["backends"]["s"]

    assert about["list"] == "last known"
    assert about["last_error"] == "exit code 1"
    assert about["era"] is None


def test_a_server_that_is_not_to_run_says_so(tmp_path: Path) -> None:
    disabled = FakeServer("a", None, disabled=True)
    unresolved = FakeServer("b", None, unresolved=("TOKEN is not set",))

    told = report(tmp_path, disabled, unresolved)["backends"]

    assert told["a"]["status"] == "disabled"
    assert told["b"]["status"] == "stopped"
    assert told["b"]["last_error"] == "TOKEN is not set"


def test_what_is_odd_about_a_server_is_a_warning(tmp_path: Path) -> None:
    server = FakeServer("s")
    server.warning = "it did not list what it offers in 60 s"
    server.listings[Kind.TOOLS] = Listing(warning="3 of its tools cannot be used")

    assert report(tmp_path, server)["backends"]["s"]["warnings"] == [
        "it did not list what it offers in 60 s",
        "3 of its tools cannot be used",
    ]


def test_a_journal_that_cannot_be_written_shows(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("a file where the directory should be")
    journal = Journal(tmp_path, source="test", clock=lambda: 0.0, redact=str)
    journal.note("gateway.started", "success", trace_id="", metadata={})
    journal.flush()

    told = gateway_status(profile_of(), journal, uptime_seconds=0.0, debug=False)

    monitoring = told["gateway"]["event_monitoring"]
    assert monitoring["enabled"] is False
    assert monitoring["last_error"].startswith("The event journal cannot be written: ")


def test_every_server_that_does_not_run_says_why_and_what_to_do(tmp_path: Path) -> None:
    running, disabled = FakeServer("a"), FakeServer("b", None, disabled=True)
    running.shown_main = server(State.READY).shown_main
    broken = server(State.BROKEN, "no connection: connection refused")

    for each in (running, broken):
        each.shown_main.restarts, each.shown_main.noise = 0, None
        each.shown_main.child = each.shown_main.line = None

    assert "reason" not in backend_status(running, 0)
    assert backend_status(disabled, 0)["reason"].endswith("set disabled = false to use it")
    assert backend_status(broken, 0)["reason"] == (
        "no connection: connection refused; see that it runs where url says; "
        "it is tried again by itself"
    )


def test_hooks_are_told_where_there_are_any(tmp_path: Path) -> None:
    journal = Journal(tmp_path, source="test", clock=lambda: 0.0, redact=str)

    class FakeHooks:
        posting = True

        def report(self) -> dict[str, Any]:
            return {"alarm": {"last_error": None}}

    hooks = cast(Hooks, FakeHooks())
    told = event_monitoring(journal, hooks)

    assert told["webhook_configured"] is True
    assert told["hooks"] == {"alarm": {"last_error": None}}
    whole = gateway_status(profile_of(), journal, hooks, uptime_seconds=0.0, debug=False)
    assert whole["gateway"]["event_monitoring"] == told
    assert "hooks" not in event_monitoring(journal)


@pytest.mark.parametrize("enabled", [True, False])
def test_telemetry_is_told_of_where_it_is_on(tmp_path: Path, enabled: bool) -> None:
    journal = Journal(tmp_path, source="test", clock=lambda: 0.0, redact=str)
    telemetry = Telemetry(TelemetryConfig(enabled=enabled), {}, lambda: 0.0, print)
    telemetry.dropped = 3
    telemetry.troubles["spans"] = "HTTP 401"

    told = event_monitoring(journal, None, telemetry)

    shown = {"dropped": 3, "troubles": {"spans": "HTTP 401"}}
    assert told.get("telemetry") == (shown if enabled else None)
    whole = gateway_status(profile_of(), journal, None, telemetry, uptime_seconds=0.0, debug=False)
    assert whole["gateway"]["event_monitoring"] == told


def members_in_the_code() -> set[str]:
    """Every text that is a key of a dictionary there, in a display or in an assignment."""
    keys: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(Path(status.__file__).read_text("utf-8"))):
        if isinstance(node, ast.Dict):
            keys += node.keys
        elif isinstance(node, ast.Assign):
            keys += [target.slice for target in node.targets if isinstance(target, ast.Subscript)]
    return {
        key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def test_every_member_and_every_status_is_on_the_page() -> None:
    first_cells = re.findall(r"^\| (`.+?`) \|", PAGE, re.MULTILINE)
    explained = {word for cell in first_cells for word in re.findall(r"`(\w+)`", cell)}
    said = {"disabled", *(state.value for state in State)}

    assert {"gateway", "uptime_s", "pid", "list"} <= members_in_the_code()
    assert explained == members_in_the_code() | said
