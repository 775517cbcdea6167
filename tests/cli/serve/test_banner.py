"""What a gateway says once it accepts connections."""

import json
import shlex
from types import MappingProxyType

from anyport.cli.serve.banner import ReadyBanner, make_banner
from anyport.config import Config, GatewayConfig, ProfileConfig, demo_config
from anyport.config.model import Token


def config(*profiles: str, gateway: GatewayConfig | None = None) -> Config:
    return Config(
        gateway=gateway or GatewayConfig(),
        servers=MappingProxyType({}),
        profiles=MappingProxyType(
            {slug: ProfileConfig(slug=slug, servers=(slug, "x")) for slug in profiles}
        ),
    )


def told(accepting: ReadyBanner) -> str:
    return "\n".join(accepting.lines(colour=False))


def pasted(accepting: ReadyBanner) -> dict[str, object]:
    (line,) = (line for line in accepting.lines(colour=False) if "mcpServers" in line)
    server: dict[str, object] = json.loads(f"{{{line}}}")["mcpServers"]["anyport"]
    return server


def test_people_see_every_profile_and_what_to_paste() -> None:
    accepting = make_banner(config("dev", "default"), "127.0.0.1", 8640)

    text = told(accepting)
    assert "\x1b" not in text
    assert "http://127.0.0.1:8640/mcp      default, x" in text
    assert "http://127.0.0.1:8640/mcp/dev  dev, x" in text
    command = "claude mcp add --transport http anyport http://127.0.0.1:8640/mcp"
    assert command in [line.strip() for line in text.splitlines()]
    assert pasted(accepting) == {"type": "http", "url": "http://127.0.0.1:8640/mcp"}


def test_colour_changes_nothing_but_the_colour() -> None:
    accepting = make_banner(demo_config(), "127.0.0.1", 8640)

    painted = "\n".join(accepting.lines(colour=True))
    assert "\x1b[32m" in painted
    for code in ("0", "1", "2", "32"):
        painted = painted.replace(f"\x1b[{code}m", "")
    assert painted == told(accepting)


def test_where_a_token_is_needed_the_client_is_told_to_send_one() -> None:
    gateway = GatewayConfig(tokens=(Token(name="me", digest=b"d" * 32),))
    accepting = make_banner(config("default", gateway=gateway), "127.0.0.1", 8640)

    (command,) = (line for line in accepting.lines(colour=False) if "claude" in line)
    assert shlex.split(command)[-2:] == ["--header", "Authorization: Bearer $ANYPORT_TOKEN"]
    assert pasted(accepting)["headers"] == {"Authorization": "Bearer ${env:ANYPORT_TOKEN}"}
    assert "The second is for Cursor" in told(accepting)


def test_on_every_address_an_address_is_named_that_works() -> None:
    accepting = make_banner(config("default"), "0.0.0.0", 8640)
    assert accepting.url == "http://127.0.0.1:8640"
    assert "on all addresses of this machine" in told(accepting)

    named = GatewayConfig(allowed_hosts=("gateway.example.com",))
    assert make_banner(config("a", gateway=named), "::", 1).url == "http://gateway.example.com:1"


def test_programs_get_the_same() -> None:
    report = make_banner(config("dev", "other"), "127.0.0.1", 8640).report(42)
    assert report == {
        "url": "http://127.0.0.1:8640",
        "profiles": {
            "dev": {"url": "http://127.0.0.1:8640/mcp/dev", "servers": ["dev", "x"]},
            "other": {"url": "http://127.0.0.1:8640/mcp/other", "servers": ["other", "x"]},
        },
        "pid": 42,
    }
