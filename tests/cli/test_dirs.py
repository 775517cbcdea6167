"""Where configuration and state lie."""

import grp
import os
import pwd
import re
import sys
from pathlib import Path

import platformdirs
import pytest

from anyport.cli import dirs
from anyport.cli.dirs import FOLDERS, find_insecurity, state_dir, user_config_dir
from anyport.gateway.hooks import hooks
from anyport.ingress.http import session_store
from anyport.record.journal import payloads


def test_the_variables_of_xdg_are_honoured() -> None:
    assert user_config_dir({"XDG_CONFIG_HOME": "/etc/mine"}) == Path("/etc/mine/anyport")
    assert state_dir(None, {"XDG_STATE_HOME": "/var/mine"}) == Path("/var/mine/anyport")


def test_a_relative_path_in_them_is_ignored() -> None:
    environ = {"XDG_STATE_HOME": "here", "HOME": "/h"}
    assert state_dir(None, environ) == state_dir(None, {"HOME": "/h"})


def test_the_command_line_wins_over_our_variable_and_that_over_xdg() -> None:
    environ = {"ANYPORT_STATE_DIR": "/ours", "XDG_STATE_HOME": "/xdg"}
    assert state_dir(Path("given"), environ) == Path("given")
    assert state_dir(None, environ) == Path("/ours")
    assert state_dir(None, {**environ, "ANYPORT_STATE_DIR": ""}) == Path("/xdg/anyport")


def test_without_them_the_platform_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert user_config_dir({}) == platformdirs.user_config_path("anyport", appauthor=False)
    assert state_dir(None, {}) == platformdirs.user_state_path("anyport", appauthor=False)


def test_a_platform_with_folders_of_its_own_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platformdirs, "user_state_path", lambda *_, **__: Path("/Library/x"))
    monkeypatch.setattr(platformdirs, "user_config_path", lambda *_, **__: Path("/Library/y"))
    assert state_dir(None, {}) == Path("/Library/x")
    assert user_config_dir({}) == Path("/Library/y")


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777, 0o2775])
def test_a_state_directory_that_others_may_write_is_not_trusted(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "state"
    directory.mkdir()
    directory.chmod(mode)
    assert f"chmod go-w {directory}" in (find_insecurity(directory) or "")

    link = tmp_path / "link"
    link.symlink_to(directory)
    assert find_insecurity(link) is not None


def test_a_state_directory_of_somebody_else_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    monkeypatch.setattr(dirs, "_ROOT", owner + 2)
    assert "belongs to another user" in (find_insecurity(tmp_path) or "")
    monkeypatch.setattr(dirs, "_ROOT", owner)
    assert find_insecurity(tmp_path) is None


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o500])
def test_one_that_others_may_only_read_or_that_is_not_there_is_trusted(
    tmp_path: Path, mode: int
) -> None:
    tmp_path.chmod(mode)
    assert find_insecurity(tmp_path) is None
    assert find_insecurity(tmp_path / "none") is None


@pytest.mark.parametrize(
    "folder", [*FOLDERS, "events/2026-11", "payloads/2026-11", "spool/2026-11"]
)
def test_nor_is_one_with_a_folder_that_others_may_write(tmp_path: Path, folder: str) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    place.chmod(0o755)
    assert find_insecurity(tmp_path) is None
    for mode in (0o720, 0o702, 0o777, 0o1777):
        place.chmod(mode)
        assert f"chmod go-w {place}" in (find_insecurity(tmp_path) or ""), oct(mode)


def test_a_link_among_them_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    state, there = tmp_path / "state", tmp_path / "shared" / "events"
    state.mkdir()
    there.mkdir(parents=True)
    (state / "events").symlink_to(there)
    assert find_insecurity(state) is None

    there.chmod(0o1777)
    words = find_insecurity(state) or ""
    assert f"{there}, to which {state / 'events'} points, is writable by other users" in words
    assert f"chmod go-w {there}" in words
    there.chmod(0o700)
    there.parent.chmod(0o777)
    assert f"{there.parent}, which contains {there}, is writable" in (find_insecurity(state) or "")
    (state / "events").unlink()
    (state / "events").symlink_to("/nowhere")
    assert find_insecurity(state) is None


def test_all_folders_that_a_gateway_makes_are_looked_at() -> None:
    made = {"events", "lists", payloads.PAYLOADS_FOLDER, session_store.FOLDER, hooks.SPOOL_FOLDER}
    assert {*FOLDERS} == made


def test_other_folders_in_it_are_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o777)
    (tmp_path / "events").write_text("no folder at all")
    assert find_insecurity(tmp_path) is None


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("deep", ["state", "a/b/state"])
def test_where_others_may_write_around_it_they_could_put_another_in_its_place(
    tmp_path: Path, deep: str, *, there: bool
) -> None:
    around = tmp_path / "around"
    state = around / deep
    (state if there else around).mkdir(parents=True)

    for mode in (0o777, 0o703):
        around.chmod(mode)
        words = find_insecurity(state) or ""
        assert f"{around}, which contains {state}, is writable by other users" in words
        assert re.search(f"chmod g?o-w {around}, or chmod [+]t {around} ", words)
    around.chmod(0o1777)
    assert find_insecurity(state) is None, "as in /tmp"


def test_so_they_could_with_a_link_that_leads_to_it(tmp_path: Path) -> None:
    around, state = tmp_path / "around", tmp_path / "state"
    around.mkdir()
    state.mkdir()
    (around / "link").symlink_to(state)
    around.chmod(0o777)

    assert find_insecurity(state) is None
    assert f"{around}, which contains" in (find_insecurity(around / "link") or "")


def test_in_a_directory_like_tmp_what_leads_to_it_must_be_ours(tmp_path: Path) -> None:
    tmp, state = tmp_path / "tmp", tmp_path / "tmp" / "theirs" / "state"
    state.mkdir(parents=True)
    tmp.chmod(0o1777)
    owner = tmp_path.stat().st_uid
    assert find_insecurity(state) is None

    if owner != 0:
        pytest.skip("only root can give files to others")
    os.chown(tmp / "theirs", 4711, -1)
    assert f"{tmp / 'theirs'}, which contains {state}, belongs to" in (find_insecurity(state) or "")
    os.chown(tmp / "theirs", owner, -1)
    assert find_insecurity(state) is None


def test_a_group_of_the_user_alone_is_not_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What many distributions set up: a group for each user, and a home that it may write.
    around = tmp_path / "local"
    state = around / "state"
    state.mkdir(parents=True)
    around.chmod(0o775)
    me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(around.stat().st_gid)
    monkeypatch.setattr(dirs, "_ROOT", -1)

    def with_members(*names: str) -> None:
        found = grp.struct_group((group.gr_name, "x", group.gr_gid, [*names]))
        monkeypatch.setattr(grp, "getgrgid", lambda _: found)

    with_members()
    monkeypatch.setattr(os, "geteuid", lambda: me.pw_uid)
    assert find_insecurity(state) is None
    with_members(me.pw_name)
    assert find_insecurity(state) is None
    with_members(me.pw_name, "eve")
    assert f"chmod g-w {around}" in (find_insecurity(state) or "")
