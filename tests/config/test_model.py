"""The frozen types: which profile is meant, and what a repr may show."""

from dataclasses import FrozenInstanceError, replace

import pytest

from anyport.config.model import (
    Config,
    GatewayConfig,
    HookConfig,
    ProfileConfig,
    ServerConfig,
    UnknownProfile,
)


def config(*profiles: str) -> Config:
    return Config(
        gateway=GatewayConfig(),
        servers={},
        profiles={name: ProfileConfig(slug=name, servers=()) for name in profiles},
    )


def test_a_profile_is_found_by_name() -> None:
    assert config("dev", "ops").profile("ops").slug == "ops"


def test_unnamed_is_the_default_profile() -> None:
    assert config("dev", "default").profile(None).slug == "default"


def test_unnamed_is_the_only_profile_there_is() -> None:
    assert config("dev").profile().slug == "dev"


def test_an_unknown_profile_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownProfile) as caught:
        config("dev", "ops").profile("dve")
    assert str(caught.value) == "there is no profile 'dve'; the profiles are: dev, ops"
    assert caught.value.names == ("dev", "ops")


def test_unnamed_among_several_without_a_default_is_refused() -> None:
    with pytest.raises(UnknownProfile) as caught:
        config("dev", "ops").profile(None)
    assert str(caught.value) == "no profile was named; the profiles are: dev, ops"


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [("127.0.0.1:8640", "127.0.0.1", 8640), ("[::1]:1", "::1", 1), ("localhost:0", "localhost", 0)],
)
def test_the_address_to_listen_on_has_two_parts(listen: str, host: str, port: int) -> None:
    gateway = GatewayConfig(listen=listen)
    assert (gateway.host, gateway.port) == (host, port)


def test_a_repr_shows_no_secret() -> None:
    server = ServerConfig(
        slug="a",
        name="a",
        command="/opt/hunter2/run",
        args=("--token=hunter2", "--long=hunter2-longer"),
        env={"TOKEN": "hunter2"},
        url="https://x/?key=hunter2",
        headers={"Authorization": "Bearer hunter2"},
        secrets=frozenset({"hunter2", "hunter2-longer", "Bearer hunter2"}),
    )
    for text in (repr(server), str(server), f"{config('dev')} {server}"):
        assert "hunter2" not in text
        assert "longer" not in text
    assert "TOKEN" in repr(server)
    assert "Authorization" in repr(server)


def test_the_secrets_of_servers_and_hooks_are_those_of_the_configuration() -> None:
    server = ServerConfig(slug="a", name="a", secrets=frozenset({"one"}))
    hook = HookConfig(name="h", on="x", post="https://e.com/two", secrets=frozenset({"two"}))
    whole = replace(config("default"), servers={"a": server}, hooks=(hook,))

    assert whole.secrets == {"one", "two"}
    assert "two" not in repr(whole)


def test_a_configuration_cannot_be_changed() -> None:
    server = ServerConfig(slug="a", name="a")
    with pytest.raises(FrozenInstanceError):
        server.slug = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        server.env["X"] = "1"  # type: ignore[index]


def test_servers_that_say_the_same_are_equal() -> None:
    def make(token: str) -> ServerConfig:
        return ServerConfig(slug="a", name="a", env={"TOKEN": token})

    assert make("1") == make("1")
    assert make("1") != make("2")
