"""What a server's process sees of the gateway's own environment.

An allow-list: the gateway's environment holds the secrets of every server, and one server must
not see those of another. Whatever else a server needs, its configuration gives it. How the
configuration was read, and who may write it, is decided elsewhere.
"""

import re
from collections.abc import Mapping
from typing import Final

# fmt: off
INHERITED: Final = frozenset({
    # Who and where we are: shells, caches and clocks go wrong without.
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    # Where programs put and look for files: package launchers keep what they download.
    "XDG_BIN_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    # Which certificates to trust: behind an inspecting proxy nothing downloads without.
    "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    # How to reach the network at all.
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY",
    "all_proxy", "https_proxy", "http_proxy", "no_proxy",
    # Where tool chains live when not in their usual place: launchers on PATH are often shims.
    "ASDF_DATA_DIR", "BUN_INSTALL", "DENO_DIR", "MISE_DATA_DIR", "NVM_DIR", "PNPM_HOME",
    "PYENV_ROOT", "VOLTA_HOME",
    # Which container engine runs the servers that come as images.
    "CONTAINER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST",
})

INHERITED_PREFIXES: Final = (
    # The language, category by category.
    "LC_",
    # Mirrors, caches and offline switches of the launchers that fetch servers.
    "NPM_CONFIG_", "PIP_", "UV_", "npm_config_",
)
# fmt: on

_SECRET_NAME: Final = re.compile("AUTH|CREDENTIAL|KEY|PASS|SECRET|TOKEN", re.IGNORECASE)
"""What a launcher logs in with, anybody can log in with."""

_SECRET_VALUE: Final = re.compile(r"https?://[^/\s]*@|://[^/\s@]*:[^/\s]*@", re.IGNORECASE)
"""Mirrors and proxies are often written with their password in the address."""

_SHELL_FUNCTION: Final = "() {"
"""How bash hands down functions; every bash below would take them for commands."""


def child_environment(parent: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a server: little of the parent's, and all that is given."""
    inherited = {name: value for name, value in parent.items() if _may_inherit(name, value)}
    return {**inherited, **given}


def _may_inherit(name: str, value: str) -> bool:
    return (
        (name in INHERITED or name.startswith(INHERITED_PREFIXES))
        and not _SECRET_NAME.search(name)
        and not _SECRET_VALUE.search(value)
        and not value.startswith(_SHELL_FUNCTION)
    )
