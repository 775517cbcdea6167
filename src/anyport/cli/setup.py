"""Configuration, profile and state directory of a command, and the addresses of its gateway."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from anyport.cli import dirs
from anyport.cli.exit_codes import CommandFailed, WrongUsage, notify_user
from anyport.cli.options import PROFILE, TRANSPARENT, SharedOptions
from anyport.config.load import FILE_NAMES, config_for_command, demo_config, find_config, load
from anyport.config.model import Config
from anyport.gateway.hooks.filters import check_hook_filter

if TYPE_CHECKING:
    from anyport.gateway.gateway import Gateway


WILDCARD_ADDRESSES: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that are no addresses to connect to, and the loopback ones that are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a gateway is started with."""

    config: Config
    profile: str
    state_dir: Path


def trusted_state_dir(options: SharedOptions) -> Path:
    """The state directory of a gateway that is about to start.

    Raises:
        CommandFailed: other users could change its files.
    """
    state_dir = dirs.state_dir(options.state_dir, os.environ)
    insecurity = dirs.find_insecurity(state_dir)
    if insecurity is not None:
        raise CommandFailed(insecurity)
    return state_dir


def read_setup(options: SharedOptions) -> Setup:
    """The setup from command line, environment and configuration files.

    Raises:
        ConfigError: a file cannot be used.
        UnknownProfile: there is no such profile.
        CommandFailed: other users could change the state directory.
    """
    config = announced_config(options)
    return Setup(
        config=config,
        profile=config.profile(options.profile).slug,
        state_dir=trusted_state_dir(options),
    )


def announced_config(options: SharedOptions) -> Config:
    """The configuration, with a notice on stderr if it defines no servers.

    Raises:
        ConfigError: a file cannot be used.
    """
    config = read_config(options, os.environ, Path.cwd())
    if options.command:
        return config
    if not config.sources:
        notify_user(f"{describe_nothing_found(os.environ)}; using the built-in demo server")
    elif not config.servers:
        notify_user(f"no servers in {', '.join(config.sources)}: define them under mcpServers")
    return config


def read_config(options: SharedOptions, environ: Mapping[str, str], cwd: Path) -> Config:
    """The configuration in the named files, or else in the default file, or else the demo server.

    Raises:
        ConfigError: a file cannot be used.
    """
    files = config_files(options, environ, cwd)
    config = load(files, environ, check_hook_filter) if files else demo_config()
    if options.command:
        config = config_for_command(options.command, config)
    return _make_transparent(config, options.profile) if options.transparent else config


def _make_transparent(config: Config, profile: str | None) -> Config:
    """The configuration with this profile made transparent.

    Raises:
        UnknownProfile: there is no such profile.
        WrongUsage: it has not exactly one server, or denies some of its tools.
    """
    chosen = config.profile(profile)
    subject = f"{TRANSPARENT.name} needs a profile with one server, but the profile '{chosen.slug}'"
    number = len(chosen.servers)
    if number != 1:
        hint = f"choose another with {PROFILE.name}, or pass a server with -- COMMAND"
        raise WrongUsage(f"{subject} has {number or 'none'}: {hint}")
    if chosen.deny or chosen.allow != ("*",):
        raise WrongUsage(f"{subject} denies some of its tools")
    profiles = dict(config.profiles) | {chosen.slug: chosen.as_transparent()}
    return replace(config, profiles=MappingProxyType(profiles))


def config_files(options: SharedOptions, environ: Mapping[str, str], cwd: Path) -> tuple[Path, ...]:
    """The named files, or else the default file; with `-- COMMAND` only named files count."""
    if options.config or options.command:
        return options.config
    file = find_config(cwd, dirs.user_config_dir(environ))
    return () if file is None else (file,)


def describe_nothing_found(environ: Mapping[str, str]) -> str:
    return f"found no {describe_default_paths(environ)}"


def describe_default_paths(environ: Mapping[str, str]) -> str:
    """Where a configuration is searched without `--config`."""
    return f"{' or '.join(FILE_NAMES)} here or in {dirs.user_config_dir(environ)}"


def record_obstacle(gateway: "Gateway") -> str | None:
    """Why a gateway with `record.onFailure = "block"` would refuse every call."""
    gateway.journal.flush()  # Its own start is the first event.
    if not gateway.journal.is_blocking:
        return None
    return (
        'cannot serve: nothing can be recorded, and record.onFailure is "block"; '
        'set it to "degrade" to serve without a record'
    )


def origin_url(host: str, port: int) -> str:
    """The URL of a gateway that listens on this host and port."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def local_url(config: Config) -> str:
    """The URL of this configuration's gateway for programs on this machine."""
    host = config.gateway.host
    return origin_url(WILDCARD_ADDRESSES.get(host, host), config.gateway.port)
