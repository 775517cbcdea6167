"""Has a running gateway take over its configuration when the files change, or when asked to.

Files are looked at, not listened to: that works on every file system, also when an editor puts a
new file in the place of the old. What a change means for the gateway is known in `gateway.reload`.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from anyport.cli import places
from anyport.cli.ending import say
from anyport.cli.options import Given
from anyport.cli.setup import read_config
from anyport.config.load import FILE_NAMES
from anyport.config.schema import Config, UnknownProfile
from anyport.gateway.changes import Changes, changes
from anyport.gateway.reload import Reload, Unfit
from anyport.gateway.runtime import HANDED_OVER, Gateway

LOOK_SECONDS: Final = 0.25
"""Between two looks at the files; a change is taken over at the second look that finds it the
same, so that nobody reads a file that is half written."""

AGAIN_SECONDS: Final = 5.0
"""Until files that could not be used are tried once more: a command that was missing, a variable, a
full disk may have been mended without a change of the files."""

Judge = Callable[[Config], str | None]
"""Why a configuration that is sound must not be taken over by this gateway."""

Mark = tuple[tuple[str, int, int, int] | None, ...]
"""How the files lay there at one look."""


def reader(
    given: Given, shape: Callable[[Config], Config], judge: Judge
) -> Callable[[Config], Config]:
    """What reads the configuration anew, as this gateway uses it."""
    cwd = Path.cwd()

    def read(before: Config) -> Config:
        try:
            config = shape(read_config(given, os.environ, cwd))
        except UnknownProfile as error:
            raise Unfit(str(error)) from None
        reason = judge(config) or _bared(before, config) or "; ".join(_obstacles(before, config))
        if reason:
            raise Unfit(reason)
        return config

    return read


def _bared(before: Config, after: Config) -> str | None:
    """What nobody means to do by saving a file: half of it may be missing, or all of it."""
    for lost, words in (
        (before.sources and not after.sources, "the configuration file is gone"),
        (before.servers and not after.servers, "no servers are left in it"),
        (
            before.gateway.tokens and not after.gateway.tokens,
            "no tokens are left in it, and everybody would be let in",
        ),
    ):
        if lost:
            return f"{words}: if that is meant, restart the gateway"
    return None


def _obstacles(before: Config, after: Config) -> Iterable[str]:
    """What would keep a server from running that is new or changed; the others are as they were."""
    found = changes(before, after)
    if not found.added and not found.changed:
        return
    # Only here: whoever starts the gateway waits for it.
    from anyport.cli.check import obstacles  # noqa: PLC0415

    for slug in (*found.added, *found.changed):
        for words in obstacles(after.servers[slug], os.environ):
            yield f"server '{slug}': {words}"


class Renewing:
    """Watches for one gateway."""

    def __init__(self, gateway: Gateway, given: Given) -> None:
        self._gateway = gateway
        self._reload: Reload = gateway.reload
        self._given = given
        self._cwd = Path.cwd()
        self._taken: Mark = ()
        """As the files were when they were last read; not known at first, when they were read
        before anybody looked, and may have changed since."""
        self._seen = self._mark()
        """As they were at the last look."""
        self._busy = False
        self._unfit = False
        """Whether they could not be used as they are."""
        self._tried = 0.0
        self._reload.on_outcome = self._tell

    def begin(self) -> None:
        """Watch, and listen for SIGHUP."""
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError, AttributeError):  # Windows has no such signal.
            loop.add_signal_handler(signal.SIGHUP, partial(self.renew, asked=True))
        self._look_later()

    def renew(self, *, asked: bool = False, again: bool = False) -> None:
        """Take over what the files say now; who `asked` is told even if that is nothing new."""
        self._taken = self._seen = self._mark()
        self._tried = asyncio.get_running_loop().time()
        self._gateway.spawn(self._run(asked=asked, again=again), "reload")

    def look(self) -> None:
        """Take over what has changed, once it stays as it is."""
        if self._gateway.parting == HANDED_OVER:
            return  # The files are its successor's business.
        if self._gateway.config.gateway.watch and not self._busy:
            mark = self._mark()
            settled, self._seen = mark == self._seen, mark
            if settled and mark != self._taken:
                self.renew()
            elif self._unfit and asyncio.get_running_loop().time() - self._tried > AGAIN_SECONDS:
                self.renew(again=True)  # What kept it from being used may be no more.
        self._look_later()

    def _look_later(self) -> None:
        if not self._gateway.draining:
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self.look)

    async def _run(self, *, asked: bool, again: bool) -> None:
        self._busy = True
        try:
            found = await self._reload.run(again=again)
        except Unfit:
            self._unfit = True
        else:
            self._unfit = False
            if asked and not found:
                self._tell(found)
        finally:
            self._busy = False

    def _tell(self, outcome: Changes | Unfit) -> None:
        if isinstance(outcome, Unfit):
            say(f"the configuration stays as it is: {outcome}")
            return
        # Only here: whoever starts the gateway waits for it.
        from anyport.cli.outlook import trouble  # noqa: PLC0415

        for line in told(outcome):
            say(line)
        for slug in (*outcome.added, *outcome.changed):
            words = trouble(self._gateway.servers[slug])
            if words is not None:
                say(f"server '{slug}' {words}")

    def _mark(self) -> Mark:
        return tuple(map(_stat, self._files()))

    def _files(self) -> list[str]:
        """Those that make the configuration, and those that would if they were there."""
        named = [str(file) for file in self._given.config] or [
            str(folder / name)
            for folder in (self._cwd, places.user_config_dir(os.environ))
            for name in FILE_NAMES
        ]
        servers = self._gateway.config.servers.values()
        return named + [server.env_file for server in servers if server.env_file is not None]


def told(found: Changes) -> list[str]:
    """What a person who changed the files wants to know."""
    parts = [
        f"{what} {', '.join(names)}"
        for what, names in (
            ("added", found.added),
            ("changed", found.changed),
            ("removed", found.removed),
            ("profiles", found.profiles),
            ("settings", found.sections),
        )
        if names
    ]
    lines = [f"the configuration was reloaded: {'; '.join(parts) or 'nothing has changed'}"]
    if found.at_start:
        names = ", ".join(found.at_start)
        lines.append(f"restart the gateway for what holds from the start on: {names}")
    return lines


def _stat(path: str) -> tuple[str, int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return path, found.st_mtime_ns, found.st_size, found.st_ino
