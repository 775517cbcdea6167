"""The page about configuration is true: its examples load, its faults occur, no key is missing."""

import re
from pathlib import Path

import pytest

from anyport.config import REVISIONS, ConfigError, GatewayConfig, load
from anyport.config.client_entries import (
    CLIENT_ONLY_KEYS,
    HEADER_COMMAND_KEYS,
    KEY_ALIASES,
    NEGATED_KEYS,
    SERVER_KEYS,
    TOOL_FILTER_KEYS,
    VARIABLE_NAMING_KEYS,
)
from anyport.config.gateway import GATEWAY_KEYS, PROFILE_KEYS, TOOLS_KEYS
from anyport.config.hooks import HOOK_KEYS
from anyport.config.record import RECORD_KEYS
from anyport.config.servers import CODE_LOADING_NAMES
from anyport.config.telemetry import TELEMETRY_KEYS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text("utf-8")
FENCES: list[tuple[str, str, str]] = re.findall(
    r"^```(\w+) ?(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)
EXAMPLES = [(syntax, text) for syntax, mark, text in FENCES if syntax != "text" and not mark]
ENVIRON = dict.fromkeys(re.findall(r"env:(\w+)", PAGE), "set")

DOCUMENTED = sorted(
    {*SERVER_KEYS, *GATEWAY_KEYS, *PROFILE_KEYS, *(f"tools.{key}" for key in TOOLS_KEYS)}
    | {
        *KEY_ALIASES,
        *NEGATED_KEYS,
        *VARIABLE_NAMING_KEYS,
        *HEADER_COMMAND_KEYS,
        *CLIENT_ONLY_KEYS,
        *TOOL_FILTER_KEYS,
    }
    | {*HOOK_KEYS, *RECORD_KEYS, *TELEMETRY_KEYS, *CODE_LOADING_NAMES}
)


def marked(mark: str) -> str:
    [text] = [text for _, given, text in FENCES if given == mark]
    return text


def test_the_page_has_many_examples() -> None:
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize(("syntax", "text"), EXAMPLES)
def test_an_example_loads(tmp_path: Path, syntax: str, text: str) -> None:
    # Under our own name every key is judged; the examples of clients have theirs.
    stem = "config" if "mcp_servers" in text or syntax == "json" else "anyport"
    file = tmp_path / f"{stem}.{syntax}"
    file.write_text(text)
    config = load([file], ENVIRON)
    assert config.servers or config.gateway != GatewayConfig(), "it says something"


def test_the_overlay_lies_over_a_clients_file(tmp_path: Path) -> None:
    client = tmp_path / "mcp.json"
    client.write_text(
        '{"mcpServers": {"github": {"command": "x"}, '
        '"Node Tools": {"command": "y", "env": {"PATH": "/opt"}}}}'
    )
    overlay = tmp_path / "overlay.toml"
    overlay.write_text(marked("overlay"))
    servers = load([client, overlay], {}).servers
    assert servers["github"].disabled
    assert servers["node-tools"].unresolved == ()


def test_the_faults_shown_are_the_faults_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("anyport.toml").write_text(marked("refused"))
    with pytest.raises(ConfigError) as caught:
        load([Path("anyport.toml")], {})
    [told] = [text for syntax, _, text in FENCES if syntax == "text"]
    assert str(caught.value) == told.strip()


def test_every_key_is_documented() -> None:
    keys = [*DOCUMENTED, *(f'"{revision}"' for revision in REVISIONS)]
    assert not [key for key in keys if f"`{key}`" not in PAGE]
