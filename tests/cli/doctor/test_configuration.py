"""The configuration, judged."""

import json
from pathlib import Path
from typing import Any

import pytest

from anyport.cli.doctor.configuration import (
    LiteralSecret,
    check_configuration,
    find_literals,
    inspect_configuration,
    is_our_address,
)
from anyport.cli.doctor.findings import Level, Section
from anyport.cli.options import SharedOptions
from anyport.config.document import Document, read_document
from anyport.config.model import GatewayConfig
from tests.cli.doctor.facts import codes, config, the


def judged(folder: Path, text: str, mode: int = 0o600, **environ: str) -> Section:
    file = folder / "anyport.toml"
    file.write_text(text)
    file.chmod(mode)
    return check_configuration(
        inspect_configuration(SharedOptions(config=(file,)), environ, folder), environ
    )


def test_a_good_one_is_one_line(tmp_path: Path) -> None:
    section = judged(tmp_path, '[mcpServers.one]\ncommand = "program"\n')

    assert section.level is Level.OK
    assert section.summary == f"{tmp_path}/anyport.toml: 1 server, 1 profile"


def test_without_any_the_demonstration_is_used_and_that_is_said(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    section = check_configuration(
        inspect_configuration(SharedOptions(), environ, tmp_path), environ
    )

    assert codes(section) == ["no-configuration"]
    assert section.summary.startswith("none")


def test_every_fault_is_told_with_its_line_and_what_mends_it(tmp_path: Path) -> None:
    section = judged(tmp_path, '[mcpServers.one]\ncomand = "x"\n[gateway]\nlisten = 5\n')

    assert codes(section, Level.PROBLEM) == ["fault"] * 3
    slip = next(each for each in section.findings if "comand" in each.what)
    assert slip.what.startswith(f"{tmp_path}/anyport.toml:2:")
    assert slip.fix == "did you mean command?"
    assert section.summary.endswith("3 faults")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    options = SharedOptions(config=(tmp_path / "absent.toml",))

    section = check_configuration(inspect_configuration(options, {}, tmp_path), {})

    assert "--config" in the(section, "fault").fix


def test_a_variable_that_is_not_set_is_to_be_exported(tmp_path: Path) -> None:
    text = '[mcpServers.one]\ncommand = "x"\nenv = { TOKEN = "${env:SESAME}" }\n'

    finding = the(judged(tmp_path, text), "unresolved")

    assert finding.about == "one"
    assert "export SESAME=" in finding.fix
    assert codes(judged(tmp_path, text, SESAME="open")) == []


def test_a_reference_in_no_known_form_is_to_be_edited(tmp_path: Path) -> None:
    text = '[mcpServers.one]\ncommand = "x"\nenv = { TOKEN = "${input:token}" }\n'

    assert the(judged(tmp_path, text), "unresolved").fix.startswith("edit the server in")


def test_what_the_loader_warns_of_is_a_warning(tmp_path: Path) -> None:
    text = '[gateway]\ntokens = { me = "sesame-open" }\n[mcpServers.one]\ncommand = "x"\n'

    section = judged(tmp_path, text)

    assert codes(section, Level.WARNING) == ["unwise", "unwise"]
    assert "guessed" in " ".join(finding.what for finding in section.findings)
    assert "sesame-open" not in repr(section)


def test_a_name_that_was_changed_is_a_hint(tmp_path: Path) -> None:
    finding = the(judged(tmp_path, '[mcpServers."My Files"]\ncommand = "x"\n'), "renamed")

    assert (finding.level, finding.about) == (Level.HINT, "my-files")


def test_no_servers_are_a_warning(tmp_path: Path) -> None:
    assert codes(judged(tmp_path, '[gateway]\nlisten = "127.0.0.1:1"\n')) == ["no-servers"]


def test_a_door_that_is_open_to_others_is_a_problem(tmp_path: Path) -> None:
    servers = '[mcpServers.one]\ncommand = "x"\n'
    text = '[gateway]\nlisten = "0.0.0.0:8640"\n'

    assert codes(judged(tmp_path, text + servers)) == ["exposed"]
    text += 'tokens = { me = "${env:TOKEN}" }\n'
    section = judged(tmp_path, text + servers, TOKEN="a-long-token-of-chance")
    assert codes(section) == ["allowed-hosts"]
    text += 'allowedHosts = ["gateway.example.com"]\n'
    assert codes(judged(tmp_path, text + servers, TOKEN="a-long-token-of-chance")) == []


def test_a_secret_in_the_file_is_told_and_never_shown(tmp_path: Path) -> None:
    text = '[mcpServers.one]\ncommand = "x"\nenv = { API_KEY = "open-sesame" }\n'

    section = judged(tmp_path, text)

    finding = the(section, "literal-secret")
    assert finding.what.startswith(f"{tmp_path}/anyport.toml:3: mcpServers.one.env.API_KEY")
    assert "${env:API_KEY}" in finding.fix
    assert "open-sesame" not in repr(section)
    assert codes(judged(tmp_path, text, 0o644)) == ["literal-secret", "file-rights"]


def test_a_file_that_others_can_change_is_a_warning(tmp_path: Path) -> None:
    finding = the(judged(tmp_path, '[mcpServers.one]\ncommand = "x"\n', 0o664), "file-rights")

    assert finding.fix == f"chmod go-w {tmp_path}/anyport.toml"


def test_headers_that_everybody_on_the_way_can_read_are_a_warning(tmp_path: Path) -> None:
    entry = '[mcpServers.one]\nurl = "{}"\nheaders = {{ X-Mood = "fine" }}\n'

    assert codes(judged(tmp_path, entry.format("http://example.com/mcp"))) == ["plain-http"]
    assert codes(judged(tmp_path, entry.format("https://example.com/mcp"))) == []
    assert codes(judged(tmp_path, entry.format("http://127.0.0.1:9/mcp"))) == []


def test_a_gateway_that_would_ask_itself_is_a_problem(tmp_path: Path) -> None:
    section = judged(tmp_path, '[mcpServers.me]\nurl = "http://localhost:8640/mcp"\n')

    assert codes(section, Level.PROBLEM) == ["loop"]


def test_a_server_that_is_disabled_is_not_judged(tmp_path: Path) -> None:
    text = '[mcpServers.me]\nurl = "http://localhost:8640/mcp"\ndisabled = true\n'

    assert codes(judged(tmp_path, text)) == []


def test_a_hook_whose_command_is_missing_is_a_warning(tmp_path: Path) -> None:
    text = (
        '[mcpServers.one]\ncommand = "x"\n'
        '[[hooks]]\nname = "alarm"\non = "status:error"\nrun = ["no-such-program"]\n'
    )

    assert "no-such-program" in the(judged(tmp_path, text), "hook").what


@pytest.mark.parametrize(
    ("url", "listen", "ours"),
    [
        ("http://127.0.0.1:8640/mcp", "127.0.0.1:8640", True),
        ("http://localhost:8640/mcp/dev", "127.0.0.1:8640", True),
        ("http://[::1]:8640/mcp", "0.0.0.0:8640", True),
        ("http://127.0.0.1:8641/mcp", "127.0.0.1:8640", False),
        ("http://example.com:8640/mcp", "127.0.0.1:8640", False),
        ("http://gateway.example.com:8640/mcp", "gateway.example.com:8640", True),
        ("http://localhost/mcp", "127.0.0.1:80", True),
        ("http://localhost:999999/mcp", "127.0.0.1:8640", False),
    ],
)
def test_an_address_is_known_by_any_of_its_names(url: str, listen: str, ours: bool) -> None:
    assert is_our_address(url, config(gateway=GatewayConfig(listen=listen))) is ours


TOKEN = "ghp_" + "a1B2" * 8


def found(folder: Path, **entry: Any) -> list[LiteralSecret]:
    file = folder / "anyport.json"
    file.write_text(json.dumps({"mcpServers": {"git hub": entry}}, indent=1))
    document = read_document(file)
    assert isinstance(document, Document)
    return list(find_literals(document))


@pytest.mark.parametrize(
    ("entry", "name", "reference"),
    [
        ({"env": {"API_KEY": "sesame"}}, "env.API_KEY", "${env:API_KEY}"),
        ({"env": {"HARMLESS": TOKEN}}, "env.HARMLESS", "${env:HARMLESS}"),
        (
            {"headers": {"Authorization": "Bearer sesame"}},
            "headers.Authorization",
            "Bearer ${env:GIT_HUB_TOKEN}",
        ),
        ({"http_headers": {"X-Api-Key": "sesame"}}, "http_headers.X-Api-Key", "${env:X_API_KEY}"),
        ({"args": ["--api-key", "sesame"]}, "args[1]", "${env:API_KEY}"),
        ({"args": ["--verbose", TOKEN]}, "args[1]", "${env:VERBOSE}"),
        ({"url": f"https://example.com/mcp?key={TOKEN}"}, "url", "${env:GIT_HUB_TOKEN}"),
    ],
)
def test_a_secret_is_told_by_its_name_or_its_looks(
    tmp_path: Path, entry: dict[str, Any], name: str, reference: str
) -> None:
    (literal,) = found(tmp_path, **entry)

    assert literal.name == f"mcpServers.'git hub'.{name}"
    assert literal.reference == reference
    assert literal.place.startswith(f"{tmp_path}/anyport.json:")
    assert "sesame" not in repr(literal)
    assert TOKEN not in repr(literal)


@pytest.mark.parametrize(
    "entry",
    [
        {"env": {"API_KEY": "${env:API_KEY}", "LOG_LEVEL": "debug", "PASSWORD": ""}},
        {"headers": {"Authorization": "Bearer ${TOKEN}", "Accept": "text/plain"}},
        {"args": ["--token", "--verbose", "server", "--port", "8080"]},
        {"url": "https://example.com/mcp"},
        {"env": "no table", "args": "no list", "url": 5, "headers": {"Authorization": None}},
    ],
)
def test_references_and_what_is_no_secret_are_left_alone(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    assert found(tmp_path, **entry) == []


def test_a_file_that_is_no_configuration_has_none(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"mcpServers": {"a": 1}, "servers": [], "other": {"env": {"KEY": "sesame"}}}')
    document = read_document(file)
    assert isinstance(document, Document)

    assert list(find_literals(document)) == []
