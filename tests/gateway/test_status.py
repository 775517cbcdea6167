"""What `gateway_status` says."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.catalog.offers import Listing
from anyport.config.model import TelemetryConfig
from anyport.gateway import status
from anyport.gateway.hooks.hooks import Hooks
from anyport.gateway.status import (
    ADVICE_BY_WORDS,
    advice_for,
    backend_status,
    event_monitoring,
    gateway_status,
    status_reason,
)
from anyport.observe.telemetry import Telemetry
from anyport.protocol.methods import OfferKind
from anyport.record.journal.journal import Journal
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.supervisor import NOT_STARTED_YET, ServerState
from tests.gateway.fakes import FakeServer, profile_of
from tests.record.story import ManualClock

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "status.md").read_text("utf-8")


def report(path: Path, *servers: FakeServer) -> dict[str, Any]:
    journal = Journal(path, source="test", now=lambda: 0.0, redact=str)
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
    server.offer(OfferKind.TOOLS, "a", "b")
    server.offer(OfferKind.RESOURCES, "x:1")

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


def test_a_session_that_could_not_be_had_is_a_warning(tmp_path: Path) -> None:
    server = FakeServer("s")
    server.trials.on_failure(LeaseKey(owner="odd"), "status 503", 0.0, refused=False)

    (warning,) = report(tmp_path, server)["backends"]["s"]["warnings"]

    assert "status 503" in warning


def test_a_server_that_is_down_says_why_and_that_its_list_is_old(tmp_path: Path) -> None:
    server = FakeServer("s", None)
    server.offer(OfferKind.TOOLS, "a")
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
    server.listings[OfferKind.TOOLS] = Listing(warning="3 of its tools cannot be used")

    assert report(tmp_path, server)["backends"]["s"]["warnings"] == [
        "it did not list what it offers in 60 s",
        "3 of its tools cannot be used",
    ]


def test_a_journal_that_cannot_be_written_shows(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("a file where the directory should be")
    journal = Journal(tmp_path, source="test", now=lambda: 0.0, redact=str)
    journal.record("gateway.started", "success", trace_id="", metadata={})
    journal.flush()

    told = gateway_status(profile_of(), journal, uptime_seconds=0.0, debug=False)

    monitoring = told["gateway"]["event_monitoring"]
    assert monitoring["enabled"] is False
    assert monitoring["last_error"].startswith("The event journal cannot be written: ")


def test_every_server_that_does_not_run_says_why_and_what_to_do(tmp_path: Path) -> None:
    running, disabled = FakeServer("a"), FakeServer("b", None, disabled=True)
    running.shown_main = server(ServerState.READY).shown_main
    broken = server(ServerState.BROKEN, "no connection: connection refused")

    for each in (running, broken):
        each.shown_main.restarts, each.shown_main.noise = 0, None
        each.shown_main.child = each.shown_main.current_connection = None

    assert "reason" not in backend_status(running, 0)
    assert backend_status(disabled, 0)["reason"].endswith("set disabled = false to use it")
    assert backend_status(broken, 0)["reason"] == (
        "no connection: connection refused; check that it runs where url says; "
        "it is retried automatically"
    )


def test_hooks_are_told_where_there_are_any(tmp_path: Path) -> None:
    journal = Journal(tmp_path, source="test", now=lambda: 0.0, redact=str)

    class FakeHooks:
        has_post = True

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
    journal = Journal(tmp_path, source="test", now=lambda: 0.0, redact=str)
    telemetry = Telemetry(TelemetryConfig(enabled=enabled), {}, ManualClock(), print)
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
    said = {"disabled", *(state.value for state in ServerState)}

    assert {"gateway", "uptime_s", "pid", "list"} <= members_in_the_code()
    assert explained == members_in_the_code() | said


# Why a server does not run, and what to do about it.


def server(
    state: ServerState, reason: str | None = None, *, asleep: bool = False, **config: Any
) -> FakeServer:
    made = FakeServer("s", None, **config)
    transport = SimpleNamespace(transport_name="stdio")
    made.shown_main = SimpleNamespace(
        state=state, reason=reason, transport=transport, asleep=asleep
    )
    return made


def test_a_server_that_runs_needs_no_reason() -> None:
    assert status_reason(server(ServerState.READY)) is None


def test_a_server_that_is_not_to_run_says_what_would_change_that() -> None:
    assert status_reason(FakeServer("s", None, disabled=True)) == (
        "it is disabled in the configuration; set disabled = false to use it"
    )
    assert status_reason(
        FakeServer("s", None, unresolved=("env.A needs A", "args[0] needs B"))
    ) == ("env.A needs A; args[0] needs B; fix that, then restart the gateway")


def test_a_server_that_nobody_has_needed_says_so() -> None:
    assert status_reason(FakeServer("s", None)) == (
        "it has not been used yet; it starts with the first client"
    )


def test_a_server_that_is_starting_says_so_and_what_was_before() -> None:
    starting = server(ServerState.STARTING)
    assert status_reason(starting) == "it is starting; wait a moment"

    starting.last_error = "exit code 1"
    assert status_reason(starting) == "it is restarting after: exit code 1; wait a moment"


def test_a_server_that_failed_says_why_and_what_helps() -> None:
    failed = server(ServerState.BROKEN, "command 'x' was not found on its PATH")

    assert status_reason(failed) == (
        "command 'x' was not found on its PATH; install the command, or give its full path; "
        "it is retried automatically"
    )


def test_where_nothing_is_known_to_help_nothing_is_advised() -> None:
    assert status_reason(server(ServerState.BROKEN, "it exploded.")) == (
        "it exploded; it is retried automatically"
    )
    assert (
        status_reason(server(ServerState.BROKEN))
        == "the reason is not known; it is retried automatically"
    )


def test_a_server_that_was_stopped_says_why() -> None:
    assert (
        status_reason(server(ServerState.STOPPED, "the gateway is stopping"))
        == "the gateway is stopping"
    )


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        ("working directory '/x' does not exist", "create that directory, or fix cwd"),
        ("command '/x' does not exist", "install the command, or give its full path"),
        ("command 'x' may not be executed: permission denied", "make the command executable"),
        ("the server wants authorization (HTTP 401): set headers", "set headers that it accepts"),
        ("no connection: connection refused", "check that it runs where url says"),
        ("the name x.invalid cannot be resolved", "fix the host in url"),
        ("exit code 3; last line on stderr: no", ADVICE_BY_WORDS[-1][1]),
    ],
)
def test_advice_fits_the_reason(reason: str, helps: str) -> None:
    assert advice_for(reason) == helps


def test_a_server_that_waits_to_be_used_says_so() -> None:
    assert status_reason(server(ServerState.IDLE, NOT_STARTED_YET, asleep=True)) == NOT_STARTED_YET


def test_a_server_that_failed_and_is_left_alone_says_when_it_is_tried_again() -> None:
    failed = server(ServerState.BROKEN, "exit code 7", asleep=True)

    assert status_reason(failed) == (
        "exit code 7; its last lines on stderr say why; 'anyport events' shows more; "
        "it is retried on the next use"
    )


def test_a_server_that_runs_and_gets_no_calls_says_why() -> None:
    failing = server(ServerState.READY)
    for _ in range(5):
        failing.health.on_failure("no answer", 0.0)

    assert status_reason(failing) == (
        "it is not taking calls: 5 calls in a row failed (last: no answer); "
        "it is tried again in 30 s"
    )
