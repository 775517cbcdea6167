"""What differs between two configurations."""

from dataclasses import replace

from anyport.config.model import (
    Config,
    GatewayConfig,
    HookConfig,
    ProfileConfig,
    RecordConfig,
    ServerConfig,
    TelemetryConfig,
)
from anyport.gateway.config_diff import ConfigDiff, diff_configs


def config_of(*slugs: str) -> Config:
    return Config(
        gateway=GatewayConfig(),
        servers={slug: ServerConfig(slug=slug, name=slug, command="x") for slug in slugs},
        profiles={"default": ProfileConfig(slug="default", servers=slugs)},
    )


def test_the_same_configuration_changes_nothing() -> None:
    assert diff_configs(config_of("a", "b"), config_of("a", "b")) == ConfigDiff()
    assert not ConfigDiff()


def test_servers_that_come_go_and_change_are_told_apart() -> None:
    before, after = config_of("a", "b", "c"), config_of("b", "c", "d")
    servers = {**after.servers, "c": replace(after.servers["c"], args=("new",))}
    found = diff_configs(before, replace(after, servers=servers))
    assert (found.added, found.removed, found.changed) == (("d",), ("a",), ("c",))
    assert found.profiles == ("default",)
    assert found


def test_where_a_server_is_defined_is_no_change_of_it() -> None:
    before = config_of("a")
    moved = {"a": replace(before.servers["a"], origin="elsewhere.toml:3", env_file="/x/.env")}
    assert not diff_configs(before, replace(before, servers=moved))


def test_profiles_that_come_go_and_change_are_told() -> None:
    before = config_of("a")
    one, two = (ProfileConfig(slug=slug, servers=("a",)) for slug in ("one", "two"))
    kept = replace(before.profiles["default"], prefix="never")
    old = replace(before, profiles={"default": before.profiles["default"], "one": one})
    new = replace(before, profiles={"default": kept, "two": two})
    assert diff_configs(old, new).profiles == ("two", "default", "one")


def test_settings_are_told_by_section_and_key() -> None:
    before = config_of("a")
    after = replace(
        before,
        gateway=GatewayConfig(list_seconds=1.0),
        record=RecordConfig(capture="full"),
        hooks=(HookConfig(name="h", on="x", run=("true",)),),
    )
    found = diff_configs(before, after)
    assert found.sections == ("gateway.listSeconds", "record.capture", "hooks")
    assert found.at_start == ()


def test_what_a_running_gateway_cannot_change_is_told_apart() -> None:
    before = config_of("a")
    after = replace(
        before,
        gateway=GatewayConfig(listen="127.0.0.1:1", list_seconds=1.0),
        telemetry=TelemetryConfig(enabled=True),
    )
    assert diff_configs(before, after).at_start == ("gateway.listen", "telemetry.enabled")
