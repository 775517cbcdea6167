"""The numbers as Prometheus reads them."""

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from anyport.gateway.api.prometheus import read, render
from anyport.upstream.supervisor import ServerState
from tests.gateway.api.fakes import FakeGateway

CALL = ("tools/call", "default", "2025-11-25", "tcp", "docs", "read", "")


def scraped(gateway: FakeGateway) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Every sample by its name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(render(read(gateway)).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def test_a_call_shows_in_the_histograms_of_the_conventions(gateway: FakeGateway) -> None:
    gateway.metrics.count_call(CALL, 0.5, 0.4375)

    found = scraped(gateway)

    labels = {
        "mcp_method_name": "tools/call",
        "profile": "default",
        "mcp_protocol_version": "2025-11-25",
        "network_transport": "tcp",
        "error_type": "",
    }
    assert found["mcp_server_operation_duration_seconds_count"] == [(labels, 1.0)]
    assert found["mcp_server_operation_duration_seconds_sum"] == [(labels, 0.5)]
    buckets = {one["le"]: n for one, n in found["mcp_server_operation_duration_seconds_bucket"]}
    assert (buckets["0.2"], buckets["0.5"], buckets["300.0"], buckets["+Inf"]) == (0, 1, 1, 1)
    server = {
        "mcp_method_name": "tools/call",
        "server": "docs",
        "gen_ai_tool_name": "read",
        "error_type": "",
    }
    assert found["mcp_client_operation_duration_seconds_sum"] == [(server, 0.4375)]
    own = {"mcp_method_name": "tools/call"}
    assert found["anyport_overhead_seconds_sum"] == [(own, 0.0625)]


def test_sessions_and_connections_show_how_long_they_lasted(gateway: FakeGateway) -> None:
    gateway.metrics.start_lifetime("s")
    gateway.metrics.start_lifetime("c")
    gateway.now += 2.5
    gateway.metrics.end_session("s", "default", "2025-11-25", "pipe")
    gateway.metrics.end_connection("c", "docs")

    found = scraped(gateway)

    [(labels, seconds)] = found["mcp_server_session_duration_seconds_sum"]
    assert (labels["network_transport"], seconds) == ("pipe", 2.5)
    assert found["mcp_client_session_duration_seconds_sum"] == [({"server": "docs"}, 2.5)]


@pytest.mark.parametrize("state", [ServerState.READY, ServerState.IDLE])
def test_servers_show_whether_they_run_and_how_often_they_broke(
    gateway: FakeGateway, state: ServerState
) -> None:
    gateway.metrics.count_restart("down")
    docs: Any = gateway.servers["docs"]
    docs.shown_main = SimpleNamespace(state=state)

    found = scraped(gateway)

    assert dict(pairs(found["anyport_server_restarts_total"])) == {"docs": 0, "down": 1, "off": 0}
    assert dict(pairs(found["anyport_server_up"])) == {"docs": 1, "down": 0, "off": 0}


def pairs(samples: list[tuple[dict[str, str], float]]) -> list[tuple[str, float]]:
    return [(labels["server"], value) for labels, value in samples]


def test_the_state_of_now_shows(gateway: FakeGateway) -> None:
    gateway.now += 7
    gateway.metrics.count_streams = lambda: 3
    gateway.journal.file_writer.lost_count = 2
    gateway.journal.file_writer.last_error = "The event journal cannot be written"
    room = gateway.relay.admission.memory_budget
    room.used_bytes = 100
    room.refuse("calls")
    terms: Any = gateway.relay.calls
    terms.append("one")

    found = scraped(gateway)

    values = {name: samples[0][1] for name, samples in found.items()}
    assert values["anyport_streams"] == 3
    assert values["anyport_open_exchanges"] == 1
    assert values["anyport_sessions"] == 0
    assert values["anyport_held_bytes"] == 100
    assert found["anyport_refused_total"] == [({"why": "calls"}, 1)]
    assert values["anyport_uptime_seconds"] == 7
    assert values["anyport_draining"] == 0
    assert values["anyport_journal_up"] == 0
    assert values["anyport_journal_lost_total"] == 2
    assert values["anyport_build_info"] == 1
    assert values["process_resident_memory_bytes"] > 0


def test_odd_names_of_tools_do_not_break_the_text(gateway: FakeGateway) -> None:
    gateway.metrics.count_call((*CALL[:5], 'a"b\\c\nd', ""), 1.0, 1.0)

    [(labels, _)] = scraped(gateway)["mcp_client_operation_duration_seconds_sum"]
    assert labels["gen_ai_tool_name"] == 'a"b\\\\c\\u000ad'


def test_no_label_has_a_character_that_cannot_be_seen(gateway: FakeGateway) -> None:
    names = ["a", "a\x1b[2J", "a\u200b", "a\u202eb", "a\x00", "a\x85", r"a\u200b", "\ud800"]
    for name in names:
        gateway.metrics.count_call((*CALL[:5], name, ""), 1.0, 1.0)

    text = render(read(gateway)).decode()

    assert all(line.isprintable() for line in text.split("\n"))
    # Two series with the same labels, and Prometheus refuses the whole page.
    told = scraped(gateway)["mcp_client_operation_duration_seconds_count"]
    assert len({labels["gen_ai_tool_name"] for labels, _ in told}) == len(names)


def test_servers_show_whether_they_get_calls_and_what_was_repeated(gateway: FakeGateway) -> None:
    for _ in range(5):
        gateway.servers["docs"].health.on_failure("no answer", 0.0)
    gateway.relay.retry_budgets.retried_counts["down"] = 3

    found = scraped(gateway)

    assert dict(pairs(found["anyport_server_ejected"])) == {"docs": 1, "down": 0, "off": 0}
    assert dict(pairs(found["anyport_server_ejections_total"])) == {"docs": 1, "down": 0, "off": 0}
    assert dict(pairs(found["anyport_server_retries_total"])) == {"docs": 0, "down": 3, "off": 0}
