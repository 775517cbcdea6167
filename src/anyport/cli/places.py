"""Which folders hold the user's configuration and the state. Reads no file and makes none."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

APPLICATION: Final = "anyport"
STATE_DIR_VARIABLE: Final = "ANYPORT_STATE_DIR"

_UNIX_DEFAULTS: Final = {"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".local/state"}


def user_config_dir(environ: Mapping[str, str]) -> Path:
    """Where the user's own configuration is looked for."""
    return _base("XDG_CONFIG_HOME", environ)


def state_dir(given: Path | None, environ: Mapping[str, str]) -> Path:
    """Where the journal, its index and the cached lists lie."""
    named = environ.get(STATE_DIR_VARIABLE)
    if given is None and named:
        given = Path(named)
    return _base("XDG_STATE_HOME", environ) if given is None else given


def _base(variable: str, environ: Mapping[str, str]) -> Path:
    chosen = environ.get(variable, "")
    # XDG Base Directory: "If an implementation encounters a relative path ... it should
    # consider the path invalid and ignore it."
    if os.path.isabs(chosen):
        return Path(chosen, APPLICATION)
    if sys.platform not in ("darwin", "win32"):
        home = environ.get("HOME") or os.path.expanduser("~")
        return Path(home, _UNIX_DEFAULTS[variable], APPLICATION)
    # Late: elsewhere the two folders are known above, and a client waits for `anyport stdio`.
    import platformdirs  # noqa: PLC0415

    if variable == "XDG_CONFIG_HOME":
        return platformdirs.user_config_path(APPLICATION, appauthor=False)
    return platformdirs.user_state_path(APPLICATION, appauthor=False)
