"""`anyport doctor`: checks everything that can be wrong, and says how to fix it.

Changes nothing. Each area has a module in `anyport.cli.doctor`.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anyport.cli import dirs
from anyport.cli.doctor import clients, configuration, launchers, listener, machine, servers, state
from anyport.cli.doctor.clients import ClientCheckContext
from anyport.cli.doctor.findings import Section, document, has_problems, show
from anyport.cli.doctor.listener import ListenAddress
from anyport.cli.doctor.servers import Examination, examine
from anyport.cli.exit_codes import FAILED, SUCCESS, WrongUsage, run_async
from anyport.cli.options import SharedOptions
from anyport.cli.output import out_json
from anyport.config.faults import suggest
from anyport.config.load import load
from anyport.config.model import Config, RecordConfig, ServerConfig
from anyport.gateway.hooks.filters import check_hook_filter
from anyport.record.redact.redactor import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """The options of `anyport doctor`."""

    servers: tuple[str, ...] = ()
    """The servers to start; empty for all."""
    verbose: bool = False


def doctor(options: SharedOptions, doctor_options: DoctorOptions) -> int:
    """Run all checks and print the findings; the exit code.

    Raises:
        WrongUsage: there is no such server.
        UnknownProfile: there is no such profile.
    """
    environ, cwd = os.environ, Path.cwd()
    reading = configuration.inspect_configuration(options, environ, cwd)
    config = reading.config
    chosen = (
        () if config is None else choose_servers(config, options.profile, doctor_options.servers)
    )
    address, examination = run_async(_examine_all(config, chosen, environ))
    redact = Redactor(() if config is None else config.secrets)
    context = ClientCheckContext(
        config=config,
        address=address,
        files=tuple(source.path for source in reading.sources),
        environ=environ,
        load=lambda files: load(files, environ, check_hook_filter),
    )
    sections = [
        _machine_section(config, environ),
        configuration.check_configuration(reading, environ),
        servers.check_servers(config, chosen, examination, environ),
        listener.check_listener(address, config),
        _state_section(options, config, environ),
        clients.check_clients(clients.find_client_files(environ, cwd), context),
    ]
    shown = [section.redacted(redact) for section in sections]
    if options.json:
        measured = {slug: servers.measurements(each) for slug, each in examination.servers.items()}
        out_json(document(shown, measured))
    else:
        show(shown, verbose=doctor_options.verbose)
    return FAILED if has_problems(shown) else SUCCESS


def choose_servers(config: Config, profile: str | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """The servers to start: those of a profile, or the named ones.

    Raises:
        WrongUsage: there is no such server.
        UnknownProfile: there is no such profile.
    """
    slugs = tuple(config.servers) if profile is None else config.profile(profile).servers
    chosen = [config.renamed.get(name, name) for name in names]
    for name in chosen:
        if name not in slugs:
            raise WrongUsage(f"there is no server '{name}'; {suggest(name, slugs)}")
    return tuple(slug for slug in slugs if not chosen or slug in chosen)


async def _examine_all(
    config: Config | None, chosen: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[ListenAddress | None, Examination]:
    if config is None:
        return None, Examination()
    startable = [slug for slug in chosen if _can_start(config.servers[slug], config)]
    return await listener.probe_listener(config, environ), await examine(config, startable)


def _can_start(server: ServerConfig, config: Config) -> bool:
    """Whether a server can be started; one that is this gateway would call itself."""
    loops = server.url is not None and configuration.is_our_address(server.url, config)
    return not (server.disabled or server.unresolved or loops)


def _machine_section(config: Config | None, environ: Mapping[str, str]) -> Section:
    if config is None:
        return machine.check_machine(machine.inspect_machine(), (), 0)
    started = [
        server
        for server in config.servers.values()
        if server.command is not None and not server.disabled
    ]
    return machine.check_machine(
        machine.inspect_machine(), launchers.find_launchers(config, environ), len(started)
    )


def _state_section(
    options: SharedOptions, config: Config | None, environ: Mapping[str, str]
) -> Section:
    now = time.time()
    record = RecordConfig() if config is None else config.record
    condition = state.inspect_state(dirs.state_dir(options.state_dir, environ), now)
    return state.check_state(condition, record, now)
