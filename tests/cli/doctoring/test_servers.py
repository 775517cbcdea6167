"""What became of servers, in words."""

from typing import Any

import pytest

from anyport.cli.doctoring.examination import Examination, Examined
from anyport.cli.doctoring.finding import Level, Section
from anyport.cli.doctoring.servers import judge, measured
from anyport.config.schema import GatewayConfig, ServerConfig
from anyport.protocol.method import Kind
from anyport.protocol.revision import REVISIONS
from anyport.routing.catalog import Entry
from anyport.routing.offers import Listing
from tests.cli.doctoring.facts import codes, config, examined, server, the, tool


def judged(one: ServerConfig, *seen: Examined, **gateway: Any) -> Section:
    configured = config(one, gateway=GatewayConfig(**gateway))
    examination = Examination(servers={each.slug: each for each in seen})
    return judge(configured, (one.slug,), examination, {"PATH": "/bin:/usr/bin"})


def test_a_server_that_runs_tells_what_it_speaks_and_how_long_it_took() -> None:
    seen = examined("files", tool("read"), revision=REVISIONS["2025-06-18"])

    section = judged(server("files", "sh"), seen)

    assert section.level is Level.OK
    assert section.summary.startswith("1 of 1 starts; 1 tool, 47 bytes, about ")
    words = the(section, "server").what
    assert words.startswith("legacy 2025-06-18 over stdio; started in 0.10 s, listed after 0.20 s")
    assert "1 tool (47 bytes), 0 resources" in words


def test_a_server_that_ends_is_told_with_its_last_words() -> None:
    reason = "exit code 1; its last words on stderr: no database"
    seen = examined("files", condition="failed", reason=reason, stderr=("Traceback", "no database"))

    finding = the(judged(server("files", "sh", args=("-c", "x")), seen), "no-start")

    assert finding.level is Level.PROBLEM
    assert finding.what == "it does not start: exit code 1"
    assert finding.lines == ("Traceback", "no database")
    assert finding.mend.endswith("sh -c x")


def test_a_command_that_is_missing_is_to_be_installed() -> None:
    seen = examined("files", condition="failed", reason="no such file")

    finding = the(judged(server("files", "no-such-program"), seen), "no-start")

    assert finding.what == "it does not start: the command no-such-program is not found"
    assert finding.mend == "install it or give its full path"


def test_what_nobody_answers_at_is_to_be_looked_at() -> None:
    remote = server("docs", url="http://127.0.0.1:1/mcp")
    seen = examined("docs", condition="failed", reason="connection refused", transport="auto")

    assert the(judged(remote, seen), "no-start").mend.endswith("curl -i http://127.0.0.1:1/mcp")


@pytest.mark.parametrize(("condition", "code"), [("silent", "no-list"), ("starting", "no-start")])
def test_one_that_takes_too_long_is_a_problem(condition: str, code: str) -> None:
    seen = examined("files", condition=condition, listed_seconds=None)

    assert codes(judged(server("files"), seen)) == [code]


def test_a_slow_start_suggests_to_wait_longer() -> None:
    seen = examined("files", listed_seconds=4.3)

    finding = the(judged(server("files"), seen), "slow-start")

    assert finding.mend == "under [gateway], listSeconds = 6"
    assert codes(judged(server("files"), seen, list_seconds=10.0)) == []
    lazy = the(judged(server("files", start="first-use"), seen), "slow-start")
    assert lazy.mend.endswith('start = "eager" for it')


def test_noise_on_stdout_is_shown() -> None:
    seen = examined("files", noise_count=2, noise="Starting up...")

    finding = the(judged(server("files"), seen), "noise")

    assert finding.what == "it wrote 2 lines to stdout that are not MCP"
    assert finding.lines == ("Starting up...",)


def test_a_list_that_was_cut_is_a_warning() -> None:
    seen = examined("files", warnings=("its tools were cut at 5000",))

    assert the(judged(server("files"), seen), "list").what == "its tools were cut at 5000"


def test_a_package_without_a_version_is_a_warning_whether_or_not_it_runs() -> None:
    one = server("files", "npx", args=("-y", "@x/files"))

    assert codes(judged(one, examined("files"))) == ["unpinned"]
    assert codes(judged(one)) == ["unpinned"]


def test_one_that_was_not_started_or_is_disabled_is_no_fault_of_its_own() -> None:
    assert judged(server("files")).level is Level.OK
    off = judged(server("files", disabled=True))
    assert (off.level, off.summary) == (Level.OK, "none to start")


def test_what_clients_see_is_judged_for_each_profile() -> None:
    configured = config(server("files"))
    entries = tuple(Entry(f"files__{at}", "files", str(at), b"{}") for at in range(101))
    examination = Examination(servers={"files": examined("files")}, tools={"default": entries})

    section = judge(configured, ("files",), examination, {})

    assert the(section, "many-tools").about == "default"


def test_without_a_configuration_nothing_is_said() -> None:
    assert codes(judge(None, (), Examination(), {})) == ["passed-over"]


def test_programs_get_what_was_measured() -> None:
    seen = examined("files", tool("read"), revision=REVISIONS["2026-07-28"])

    told = measured(seen)

    assert told["tools"] == 1
    assert (told["era"], told["revision"]) == ("modern", "2026-07-28")
    assert (told["started_s"], told["listed_s"], told["tool_bytes"]) == (0.1, 0.2, 47)
    nothing = measured(Examined(slug="x", condition="failed", listings={Kind.TOOLS: Listing()}))
    assert (nothing["era"], nothing["started_s"]) == (None, None)
