"""`anyport doctor`: looks at everything that can be wrong, and says what mends it.

Changes nothing, here or elsewhere. What each area is about stands in a file of its own.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anyport.cli import places
from anyport.cli.doctoring import (
    clients,
    configuration,
    entries,
    launchers,
    listening,
    runtime,
    servers,
    state,
)
from anyport.cli.doctoring.entries import Around
from anyport.cli.doctoring.examination import Examination, examine
from anyport.cli.doctoring.finding import Section
from anyport.cli.doctoring.listening import Address
from anyport.cli.doctoring.report import document, has_problems, show
from anyport.cli.ending import FAILED, GOOD, WrongUsage
from anyport.cli.loop import run
from anyport.cli.options import Given
from anyport.cli.render import out_json
from anyport.config.faults import suggestion
from anyport.config.load import load
from anyport.config.schema import Config, RecordConfig, ServerConfig
from anyport.gateway.hooks_judge import judge_filter
from anyport.record.redact import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the command line asks for besides the options that all share."""

    servers: tuple[str, ...] = ()
    """Only these are started; none: all of them."""
    verbose: bool = False


def doctor(given: Given, wish: Wish) -> int:
    """Look at everything and say what is wrong; the exit code.

    Raises:
        WrongUsage: there is no such server.
        UnknownProfile: there is no such profile.
    """
    environ, cwd = os.environ, Path.cwd()
    reading = configuration.look(given, environ, cwd)
    config = reading.config
    chosen = () if config is None else choose(config, given.profile, wish.servers)
    address, examination = run(_visit(config, chosen, environ))
    redact = Redactor(() if config is None else config.secrets)
    around = Around(
        config=config,
        address=address,
        files=tuple(source.path for source in reading.sources),
        environ=environ,
        load=lambda files: load(files, environ, judge_filter),
    )
    sections = [
        _runtime(config, environ),
        configuration.judge(reading, environ),
        servers.judge(config, chosen, examination, environ),
        listening.judge(address, config),
        _state(given, config, environ),
        entries.judge(clients.look(environ, cwd), around),
    ]
    shown = [section.shown(redact) for section in sections]
    if given.json:
        measured = {slug: servers.measured(each) for slug, each in examination.servers.items()}
        out_json(document(shown, measured))
    else:
        show(shown, verbose=wish.verbose)
    return FAILED if has_problems(shown) else GOOD


def choose(config: Config, profile: str | None, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The servers that are looked at: those of a profile, or those that were named.

    Raises:
        WrongUsage: there is no such server.
        UnknownProfile: there is no such profile.
    """
    known = tuple(config.servers) if profile is None else config.profile(profile).servers
    named = [config.renamed.get(name, name) for name in wanted]
    for name in named:
        if name not in known:
            raise WrongUsage(f"there is no server '{name}'; {suggestion(name, known)}")
    return tuple(slug for slug in known if not named or slug in named)


async def _visit(
    config: Config | None, chosen: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[Address | None, Examination]:
    if config is None:
        return None, Examination()
    able = [slug for slug in chosen if _is_able(config.servers[slug], config)]
    return await listening.look(config, environ), await examine(config, able)


def _is_able(server: ServerConfig, config: Config) -> bool:
    """Whether a server can be started at all; not one that is the gateway itself."""
    loops = server.url is not None and configuration.is_our_address(server.url, config)
    return not (server.disabled or server.unresolved or loops)


def _runtime(config: Config | None, environ: Mapping[str, str]) -> Section:
    if config is None:
        return runtime.judge(runtime.look(), (), 0)
    started = [
        server
        for server in config.servers.values()
        if server.command is not None and not server.disabled
    ]
    return runtime.judge(runtime.look(), launchers.needed(config, environ), len(started))


def _state(given: Given, config: Config | None, environ: Mapping[str, str]) -> Section:
    now = time.time()
    record = RecordConfig() if config is None else config.record
    found = state.look(places.state_dir(given.state_dir, environ), now)
    return state.judge(found, record, now)
