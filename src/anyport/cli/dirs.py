"""Configuration and state directories of the user, and whether others can write to them."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

APPLICATION: Final = "anyport"
STATE_DIR_VARIABLE: Final = "ANYPORT_STATE_DIR"

FOLDERS: Final = ("events", "payloads", "lists", "sessions", "spool")
"""Folders that a gateway creates in its state directory."""
_NESTED_FOLDERS: Final = ("events", "payloads", "spool")

_ROOT: Final = 0
_ADVICE: Final = "or name another directory with --state-dir"

_UNIX_DEFAULTS: Final = {"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".local/state"}


def user_config_dir(environ: Mapping[str, str]) -> Path:
    """The user's configuration directory."""
    return _base_dir("XDG_CONFIG_HOME", environ)


def state_dir(option: Path | None, environ: Mapping[str, str]) -> Path:
    """The directory of `--state-dir`, else ANYPORT_STATE_DIR, else the platform's default."""
    if option is not None:
        return option
    variable = environ.get(STATE_DIR_VARIABLE)
    return Path(variable) if variable else _base_dir("XDG_STATE_HOME", environ)


def find_insecurity(state_dir: Path) -> str | None:
    """Why others can write to a state directory, and what to do; None if they cannot.

    Who can write there can forge the record, and give the gateway keys and lists.
    """
    # Windows has no permission bits.
    return next(_faults(state_dir), None) if hasattr(os, "geteuid") else None


def _faults(state_dir: Path) -> Iterator[str]:
    yield from _faults_of(state_dir, "The state directory")
    yield from _faults_around(state_dir)
    for name in FOLDERS:
        folder = state_dir / name
        yield from _faults_of(folder, "The folder")
        if folder.is_symlink():
            yield from _faults_around(folder.resolve())
        for inner in _folders_in(folder) if name in _NESTED_FOLDERS else ():
            yield from _faults_of(inner, "The folder")


def _faults_of(folder: Path, label: str) -> Iterator[str]:
    """Faults of a folder of the gateway, or of the target if it is a symbolic link."""
    try:
        target = folder.resolve() if folder.is_symlink() else folder
        stat_result = target.stat()
    except (OSError, RuntimeError):  # It does not exist, or a link points to itself.
        return
    if not stat.S_ISDIR(stat_result.st_mode):
        return  # The gateway will fail to use it.
    subject = f"{label} {target}"
    if target is not folder:
        subject += f", to which {folder} points,"
    if not _is_owned_by_us(stat_result):
        yield (
            f"{subject} belongs to another user ({stat_result.st_uid}), who could change the "
            f"record and the gateway's keys. Change its owner, {_ADVICE}"
        )
    if stat_result.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield (
            f"{subject} is writable by other users, who could change the record and the gateway's "
            f"keys: chmod go-w {target}, {_ADVICE}"
        )


def _faults_around(folder: Path) -> Iterator[str]:
    """Faults of the parent folders: who can write to them can replace the folder."""
    for path in dict.fromkeys((os.path.abspath(folder), os.path.realpath(folder))):
        inner = Path(path)
        for outer in inner.parents:
            yield from _faults_between(outer, inner, folder)
            inner = outer


def _faults_between(outer: Path, inner: Path, folder: Path) -> Iterator[str]:
    try:
        outer_stat = outer.stat()
    except OSError:
        return  # The gateway will create it.
    writers = _other_writers(outer_stat)
    if not writers:
        return
    if not outer_stat.st_mode & stat.S_ISVTX:
        yield (
            f"The folder {outer}, which contains {folder}, is writable by other users, who could "
            f"replace it: chmod {writers}-w {outer}, or chmod +t {outer} if others must write "
            f"there, {_ADVICE}"
        )
        return
    # In a sticky folder such as /tmp, users can replace only what is their own.
    try:
        inner_stat = inner.lstat()
    except OSError:
        return
    if not _is_owned_by_us(inner_stat) and inner != folder:
        yield (
            f"The folder {inner}, which contains {folder}, belongs to another user "
            f"({inner_stat.st_uid}), who could replace it. Change its owner, {_ADVICE}"
        )


def _is_owned_by_us(stat_result: os.stat_result) -> bool:
    return stat_result.st_uid in (os.geteuid(), _ROOT)


def _other_writers(stat_result: os.stat_result) -> str:
    """Who else can write, as chmod spells it: `g`, `o`, `go` or nothing."""
    mode = stat_result.st_mode
    group = "g" if mode & stat.S_IWGRP and not _is_own_group(stat_result.st_gid) else ""
    return group + ("o" if mode & stat.S_IWOTH else "")


def _is_own_group(gid: int) -> bool:
    """Whether the user is the only member of a group, besides root.

    Systems that give each user a group often create files that are writable by it.
    """
    # Imported here: rarely needed, and missing on Windows.
    import grp  # noqa: PLC0415
    import pwd  # noqa: PLC0415

    if gid == _ROOT:
        return True
    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(gid)
    except KeyError:  # A container engine has assigned it to this process.
        return gid in os.getgroups()
    return gid == user.pw_gid and not {*group.gr_mem} - {user.pw_name}


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if not entry.is_file()]
    except OSError:
        return []


def _base_dir(variable: str, environ: Mapping[str, str]) -> Path:
    chosen = environ.get(variable, "")
    # XDG Base Directory: "If an implementation encounters a relative path ... it should
    # consider the path invalid and ignore it."
    if os.path.isabs(chosen):
        return Path(chosen, APPLICATION)
    if sys.platform not in ("darwin", "win32"):
        home = environ.get("HOME") or os.path.expanduser("~")
        return Path(home, _UNIX_DEFAULTS[variable], APPLICATION)
    # Imported here: Linux does not need it, and a client waits for `anyport stdio`.
    import platformdirs  # noqa: PLC0415

    if variable == "XDG_CONFIG_HOME":
        return platformdirs.user_config_path(APPLICATION, appauthor=False)
    return platformdirs.user_state_path(APPLICATION, appauthor=False)
