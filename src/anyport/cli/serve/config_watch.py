"""Reloads the configuration of a running gateway when its files change, and on SIGHUP.

Files are polled: that works on every file system, and with editors that replace the file.
`gateway.reload` applies the changes.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from anyport.cli import dirs
from anyport.cli.exit_codes import WrongUsage, notify_user
from anyport.cli.options import SharedOptions
from anyport.cli.setup import read_config
from anyport.config.load import FILE_NAMES
from anyport.config.model import Config, UnknownProfile
from anyport.gateway.config_diff import ConfigDiff, diff_configs
from anyport.gateway.gateway import HANDED_OVER, Gateway
from anyport.gateway.reload import Reload, ReloadRefused

POLL_SECONDS: Final = 0.25
"""Between two polls. A change is read when a second poll finds the files unchanged: by then an
editor has written all of it."""

RETRY_SECONDS: Final = 5.0
"""Until unusable files are tried again: a missing command or a full disk can be fixed without a
change of the files."""

ConfigCheck = Callable[[Config], str | None]
"""Why this gateway cannot use a valid configuration; None if it can."""

FileStamps = tuple[tuple[str, int, int, int] | None, ...]
"""Path, mtime, size and inode of each file; None for one that does not exist."""


def make_config_reader(
    options: SharedOptions, shape: Callable[[Config], Config], check: ConfigCheck
) -> Callable[[Config], Config]:
    """A function that reads the configuration again, for the reload of this gateway."""
    cwd = Path.cwd()

    def read(before: Config) -> Config:
        try:
            config = shape(read_config(options, os.environ, cwd))
        except (UnknownProfile, WrongUsage) as error:
            raise ReloadRefused(str(error)) from None
        reason = (
            check(config)
            or _find_lost_section(before, config)
            or "; ".join(_new_obstacles(before, config))
        )
        if reason:
            raise ReloadRefused(reason)
        return config

    return read


def _find_lost_section(before: Config, after: Config) -> str | None:
    """Guards against an incomplete file: losing all of these is more likely a mistake."""
    for is_lost, reason in (
        (before.sources and not after.sources, "the configuration file is gone"),
        (before.servers and not after.servers, "it has no servers any more"),
        (
            before.gateway.tokens and not after.gateway.tokens,
            "it has no tokens any more, and would let in everyone",
        ),
    ):
        if is_lost:
            return f"{reason}: if this is intended, restart the gateway"
    return None


def _new_obstacles(before: Config, after: Config) -> Iterable[str]:
    """Why new or changed servers would not start."""
    diff = diff_configs(before, after)
    if not diff.added and not diff.changed:
        return
    # Imported here: not needed to start the gateway.
    from anyport.cli.preflight import server_obstacles  # noqa: PLC0415

    for slug in (*diff.added, *diff.changed):
        for obstacle in server_obstacles(after.servers[slug], os.environ):
            yield f"server '{slug}': {obstacle}"


class ConfigWatcher:
    """Polls the configuration files of one gateway."""

    def __init__(self, gateway: Gateway, options: SharedOptions) -> None:
        self._gateway = gateway
        self._reload: Reload = gateway.reload
        self._options = options
        self._cwd = Path.cwd()
        self._loaded_stamps: FileStamps = ()
        """At the last reload. Empty at first: the files were read before the first poll, and may
        have changed in between."""
        self._seen_stamps = self._stamp_files()
        """At the last poll."""
        self._busy = False
        self._is_unusable = False
        self._tried_at = 0.0
        self._reload.on_outcome = self._report_outcome

    def start(self) -> None:
        """Start polling, and handle SIGHUP."""
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError, AttributeError):  # Windows has no SIGHUP.
            loop.add_signal_handler(signal.SIGHUP, partial(self.reload_files, is_requested=True))
        self._schedule_check()

    def reload_files(self, *, is_requested: bool = False, is_retry: bool = False) -> None:
        """Reload the files; with `is_requested`, report even if nothing has changed."""
        self._loaded_stamps = self._seen_stamps = self._stamp_files()
        self._tried_at = asyncio.get_running_loop().time()
        self._gateway.clock.spawn(self._run(is_requested=is_requested, is_retry=is_retry), "reload")

    def check_files(self) -> None:
        """Poll the files, and reload them when a change is complete."""
        if self._gateway.stop_reason == HANDED_OVER:
            return  # Its successor watches the files.
        if self._gateway.config.gateway.watch and not self._busy:
            stamps = self._stamp_files()
            is_complete, self._seen_stamps = stamps == self._seen_stamps, stamps
            if is_complete and stamps != self._loaded_stamps:
                self.reload_files()
            elif (
                self._is_unusable
                and asyncio.get_running_loop().time() - self._tried_at > RETRY_SECONDS
            ):
                self.reload_files(is_retry=True)  # The cause may be gone.
        self._schedule_check()

    def _schedule_check(self) -> None:
        if not self._gateway.draining:
            asyncio.get_running_loop().call_later(POLL_SECONDS, self.check_files)

    async def _run(self, *, is_requested: bool, is_retry: bool) -> None:
        self._busy = True
        try:
            diff = await self._reload.run(again=is_retry)
        except ReloadRefused:
            self._is_unusable = True
        else:
            self._is_unusable = False
            if is_requested and not diff:
                self._report_outcome(diff)
        finally:
            self._busy = False

    def _report_outcome(self, outcome: ConfigDiff | ReloadRefused) -> None:
        if isinstance(outcome, ReloadRefused):
            notify_user(f"the configuration was not reloaded: {outcome}")
            return
        # Imported here: not needed to start the gateway.
        from anyport.cli.serve.startup_report import describe_trouble  # noqa: PLC0415

        for line in describe_changes(outcome):
            notify_user(line)
        for slug in (*outcome.added, *outcome.changed):
            trouble = describe_trouble(self._gateway.servers[slug])
            if trouble is not None:
                notify_user(f"server '{slug}' {trouble}")

    def _stamp_files(self) -> FileStamps:
        return tuple(map(_stat, self._watched_files()))

    def _watched_files(self) -> list[str]:
        """The configuration files, and the default ones that may appear."""
        files = [str(file) for file in self._options.config] or [
            str(folder / name)
            for folder in (self._cwd, dirs.user_config_dir(os.environ))
            for name in FILE_NAMES
        ]
        servers = self._gateway.config.servers.values()
        return files + [server.env_file for server in servers if server.env_file is not None]


def describe_changes(diff: ConfigDiff) -> list[str]:
    """The outcome of a reload."""
    parts = [
        f"{what} {', '.join(names)}"
        for what, names in (
            ("added", diff.added),
            ("changed", diff.changed),
            ("removed", diff.removed),
            ("profiles", diff.profiles),
            ("settings", diff.sections),
        )
        if names
    ]
    lines = [f"the configuration was reloaded: {'; '.join(parts) or 'nothing has changed'}"]
    if diff.at_start:
        names = ", ".join(diff.at_start)
        lines.append(f"restart the gateway to apply: {names}")
    return lines


def _stat(path: str) -> tuple[str, int, int, int] | None:
    try:
        stat_result = os.stat(path)
    except OSError:
        return None
    return path, stat_result.st_mtime_ns, stat_result.st_size, stat_result.st_ino
