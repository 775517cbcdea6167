"""What became of servers, in words."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from anyport.catalog.catalog import CatalogEntry
from anyport.catalog.offers import Listing
from anyport.cli.doctor.findings import Level, Section
from anyport.cli.doctor.servers import (
    Examination,
    ExaminedServer,
    check_offers,
    check_profile,
    check_servers,
    examine,
    isolate_servers,
    measurements,
)
from anyport.config.load import load
from anyport.config.model import Config, GatewayConfig, ProfileConfig, ServerConfig
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import REVISIONS
from tests.cli.doctor.facts import codes, config, examined, server, the, tool
from tests.cli.stage import tiny_entry


def judged(one: ServerConfig, *seen: ExaminedServer, **gateway: Any) -> Section:
    configured = config(one, gateway=GatewayConfig(**gateway))
    examination = Examination(servers={each.slug: each for each in seen})
    return check_servers(configured, (one.slug,), examination, {"PATH": "/bin:/usr/bin"})


def test_a_server_that_runs_tells_what_it_speaks_and_how_long_it_took() -> None:
    seen = examined("files", tool("read"), revision=REVISIONS["2025-06-18"])

    section = judged(server("files", "sh"), seen)

    assert section.level is Level.OK
    assert section.summary.startswith("1 of 1 starts; 1 tool, 47 bytes, about ")
    words = the(section, "server").what
    assert words.startswith("legacy 2025-06-18 over stdio; started in 0.10 s, listed after 0.20 s")
    assert "1 tool (47 bytes), 0 resources" in words


def test_a_server_that_exits_is_shown_with_its_last_lines_on_stderr() -> None:
    reason = "exit code 1; last line on stderr: no database"
    seen = examined("files", condition="failed", reason=reason, stderr=("Traceback", "no database"))

    finding = the(judged(server("files", "sh", args=("-c", "x")), seen), "no-start")

    assert finding.level is Level.PROBLEM
    assert finding.what == "it does not start: exit code 1"
    assert finding.lines == ("Traceback", "no database")
    assert finding.fix.endswith("sh -c x")


def test_a_command_that_is_missing_is_to_be_installed() -> None:
    seen = examined("files", condition="failed", reason="no such file")

    finding = the(judged(server("files", "no-such-program"), seen), "no-start")

    assert finding.what == "it does not start: the command no-such-program is not found"
    assert finding.fix == "install it or give its full path"


def test_what_nobody_answers_at_is_to_be_looked_at() -> None:
    remote = server("docs", url="http://127.0.0.1:1/mcp")
    seen = examined("docs", condition="failed", reason="connection refused", transport="auto")

    assert the(judged(remote, seen), "no-start").fix.endswith("curl -i http://127.0.0.1:1/mcp")


@pytest.mark.parametrize(("condition", "code"), [("silent", "no-list"), ("starting", "no-start")])
def test_one_that_takes_too_long_is_a_problem(condition: str, code: str) -> None:
    seen = examined("files", condition=condition, listed_seconds=None)

    assert codes(judged(server("files"), seen)) == [code]


def test_a_slow_start_suggests_to_wait_longer() -> None:
    seen = examined("files", listed_seconds=4.3)

    finding = the(judged(server("files"), seen), "slow-start")

    assert finding.fix == "under [gateway], listSeconds = 6"
    assert codes(judged(server("files"), seen, list_seconds=10.0)) == []
    lazy = the(judged(server("files", start="first-use"), seen), "slow-start")
    assert lazy.fix.endswith('start = "eager" for it')


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
    entries = tuple(CatalogEntry(f"files__{at}", "files", str(at), b"{}") for at in range(101))
    examination = Examination(servers={"files": examined("files")}, tools={"default": entries})

    section = check_servers(configured, ("files",), examination, {})

    assert the(section, "many-tools").about == "default"


def test_without_a_configuration_nothing_is_said() -> None:
    assert codes(check_servers(None, (), Examination(), {})) == ["passed-over"]


def test_programs_get_what_was_measured() -> None:
    seen = examined("files", tool("read"), revision=REVISIONS["2026-07-28"])

    told = measurements(seen)

    assert told["tools"] == 1
    assert (told["era"], told["revision"]) == ("modern", "2026-07-28")
    assert (told["started_s"], told["listed_s"], told["tool_bytes"]) == (0.1, 0.2, 47)
    nothing = measurements(
        ExaminedServer(slug="x", condition="failed", listings={OfferKind.TOOLS: Listing()})
    )
    assert (nothing["era"], nothing["started_s"]) == (None, None)


ODD = """
import json, sys
print("Starting up...", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "odd", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "one", "inputSchema": {"type": "object"}}, {}]}
    else:
        answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
"""


def configured(folder: Path, **servers: Any) -> Config:
    file = folder / "anyport.json"
    everything = {
        "mcpServers": servers,
        "hooks": [{"name": "all", "on": "type:gateway.started", "run": ["touch", "told"]}],
        "record": {"anchor": str(folder / "anchor"), "capture": "full"},
    }
    file.write_text(json.dumps(everything))
    return load([file], {})


def examine_config(config: Config, *slugs: str, seconds_max: float = 20.0) -> Examination:
    return asyncio.run(examine(config, slugs or tuple(config.servers), seconds_max=seconds_max))


def script(text: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", "-c", text], "protocol": "legacy"}


def test_a_server_is_started_listed_and_stopped(tmp_path: Path) -> None:
    found = examine_config(configured(tmp_path, tiny=tiny_entry(tmp_path / "notes")))

    tiny = found.servers["tiny"]
    assert tiny.condition == "running"
    assert tiny.revision is not None
    assert tiny.revision.name == "2025-11-25"
    assert tiny.count(OfferKind.TOOLS) == 8
    assert tiny.started_seconds is not None
    assert tiny.listed_seconds is not None
    assert tiny.started_seconds <= tiny.listed_seconds
    assert "tiny__add" in {entry.public for entry in found.tools["default"]}


def test_servers_fail_side_by_side_each_with_its_reason(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        odd=script(ODD),
        dies=script("import sys; sys.exit('no database')"),
        gone={"command": str(tmp_path / "absent")},
    )

    servers = examine_config(config).servers

    assert servers["odd"].condition == "running"
    assert (servers["odd"].noise_count, servers["odd"].noise) == (1, "Starting up...")
    assert servers["odd"].warnings == ("1 of its tools cannot be used",)
    assert servers["dies"].condition == "failed"
    assert servers["dies"].stderr == ("no database",)
    assert servers["dies"].reason is not None
    assert "exit code 1" in servers["dies"].reason
    assert servers["gone"].condition == "failed"


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    config = configured(tmp_path, hangs=script("import sys; sys.stdin.read()"))

    found = examine_config(config, seconds_max=0.2)

    assert found.servers["hangs"].condition == "starting"
    assert found.servers["hangs"].started_seconds is None


def test_only_those_that_are_asked_for_are_started(tmp_path: Path) -> None:
    tiny = tiny_entry(tmp_path / "notes")
    config = configured(tmp_path, one=tiny, two=tiny)

    assert set(examine_config(config, "two").servers) == {"two"}
    assert asyncio.run(examine(config, ())) == Examination()


def test_nobody_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    config = configured(tmp_path, tiny=tiny_entry(tmp_path / "notes"))

    examine_config(config)

    assert [path.name for path in tmp_path.iterdir()] == ["anyport.json"]


def test_a_server_that_would_wait_for_its_first_use_is_started_now(tmp_path: Path) -> None:
    lazy = tiny_entry(tmp_path / "notes") | {"start": "first-use", "idleSeconds": 1}
    config = configured(tmp_path, lazy=lazy)

    (server,) = isolate_servers(config, ["lazy"]).servers.values()

    assert (server.start, server.idle_seconds) == ("eager", 0.0)
    assert examine_config(config).servers["lazy"].condition == "running"


DEFAULT = ProfileConfig(slug="default", servers=("files", "repo"))
LOOSE = ProfileConfig(slug="loose", servers=("files", "repo"), prefix="on-conflict")


def entry(slug: str, native: str, public: str | None = None, size: int = 10) -> CatalogEntry:
    return CatalogEntry(public or f"{slug}__{native}", slug, native, b"x" * size)


def test_good_tools_are_not_worth_a_word() -> None:
    assert list(check_offers(examined("files", tool("read", description="Reads.")))) == []
    assert list(check_profile(DEFAULT, [entry("files", "read")])) == []


def test_a_very_long_description_is_a_hint() -> None:
    found = list(check_offers(examined("files", tool("read", description="x" * 3000))))

    assert codes(found, Level.HINT) == ["long-descriptions"]
    assert found[0].about == "files"


def test_schemas_that_break_a_rule_are_told_with_the_advice_of_the_rule() -> None:
    server = examined(
        "files",
        tool("read", inputSchema={"type": "string"}),
        tool("write", inputSchema=None),
        tool("a b"),
        revision=REVISIONS["2025-06-18"],
    )

    found = list(check_offers(server))

    assert codes(found, Level.WARNING) == ["lint-input-schema"]
    assert codes(found, Level.HINT) == ["lint-tool-name"]
    assert "read" in the(found, "lint-input-schema").what
    assert "write" in the(found, "lint-input-schema").what


def test_what_is_only_worth_a_look_is_left_to_lint() -> None:
    odd = tool("read", annotations={"readOnlyHint": True, "destructiveHint": True})

    assert list(check_offers(examined("files", odd))) == []


def test_names_that_were_shortened_are_told() -> None:
    short = entry("files", "n" * 80, f"files__{'n' * 40}_0123abcd")

    found = list(check_profile(DEFAULT, [short, entry("files", "read")]))

    assert codes(found) == ["shortened-names"]
    assert "1 name" in found[0].what


def test_names_that_clients_make_too_long_are_told() -> None:
    assert codes(check_profile(DEFAULT, [entry("files", "n" * 45)])) == ["long-names"]
    assert codes(check_profile(DEFAULT, [entry("files", "n" * 40)])) == []


def test_names_clash_only_where_they_have_no_prefix() -> None:
    same = [entry("files", "read", "read"), entry("repo", "read")]

    found = list(check_profile(LOOSE, same))

    assert codes(found) == ["clashing-names"]
    assert "read (files, repo)" in found[0].what
    assert list(check_profile(DEFAULT, same)) == []


def test_a_list_that_fills_the_context_is_a_hint() -> None:
    large = [entry("files", "read", size=120 * 1024)]
    many = [entry("files", f"tool{number}") for number in range(120)]

    assert codes(check_profile(DEFAULT, large)) == ["large-list"]
    assert codes(check_profile(DEFAULT, many)) == ["many-tools"]
