"""What servers get to see of the gateway's environment."""

import pytest

from anyport.upstream.environment import child_environment


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
        *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "https_proxy", "DOCKER_HOST", "NVM_DIR"),
        *("NPM_CONFIG_REGISTRY", "npm_config_cache", "PIP_INDEX_URL", "UV_CACHE_DIR"),
    ],
)
def test_what_programs_need_to_run_is_inherited(name: str) -> None:
    assert child_environment({name: "https://mirror.example/simple"}, {}) == {
        name: "https://mirror.example/simple"
    }


@pytest.mark.parametrize(
    "name",
    [
        *("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "DATABASE_URL", "PGPASSWORD"),
        *("SSH_AUTH_SOCK", "ANYPORT_STATE_DIR", "path", "PATHS", "XDG_SESSION_ID"),
        *("LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV"),
        *("VIRTUAL_ENV", "BASH_FUNC_x%%", ""),
    ],
)
def test_everything_else_stays_with_the_gateway(name: str) -> None:
    assert child_environment({name: "canary"}, {}) == {}


@pytest.mark.parametrize(
    "name",
    [
        *("npm_config__auth", "NPM_CONFIG__AUTHTOKEN", "npm_config_//r.example/:_password"),
        *("UV_PUBLISH_TOKEN", "UV_INDEX_PRIVATE_PASSWORD", "PIP_CLIENT_KEY", "UV_CREDENTIALS_DIR"),
    ],
)
def test_what_launchers_log_in_with_is_not_inherited(name: str) -> None:
    assert child_environment({name: "canary"}, {}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "https://user:canary@mirror.example/simple",
        "https://canary@mirror.example/simple",
        "https://open.example/a https://user:canary@mirror.example/b",
        "socks5://user:canary@proxy.example:1080",
    ],
)
def test_an_address_with_a_password_is_not_inherited(value: str) -> None:
    assert child_environment({"UV_INDEX": value, "HTTPS_PROXY": value}, {}) == {}


@pytest.mark.parametrize("value", ["ssh://me@engine.example", "https://npm.example/@scope/x"])
def test_an_address_without_one_is(value: str) -> None:
    assert child_environment({"DOCKER_HOST": value}, {}) == {"DOCKER_HOST": value}


def test_functions_of_the_shell_are_not_inherited() -> None:
    assert child_environment({"TERM": "() { :; }; echo canary"}, {}) == {}


def test_what_is_given_arrives_as_it_is_and_wins() -> None:
    given = {"PATH": "/opt/bin", "GITHUB_TOKEN": "t", "EMPTY": "", "F": "() { :; }"}

    assert child_environment({"PATH": "/usr/bin", "EMPTY": "x", "HOME": "/h"}, given) == {
        "HOME": "/h",
        **given,
    }
