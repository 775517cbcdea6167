"""What a run stands on: which configuration, which profile, which state directory."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anyport.cli import places
from anyport.cli.ending import say
from anyport.cli.options import Given
from anyport.config.load import FILE_NAMES, demo_config, find, load
from anyport.config.schema import Config
from anyport.gateway.hooks_judge import judge_filter


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Everything a gateway is started with."""

    config: Config
    profile: str
    state_dir: Path


def read_setup(given: Given) -> Setup:
    """The setup that the command line, the environment and the files make together.

    Raises:
        ConfigError: a file cannot be used.
        UnknownProfile: there is no such profile.
    """
    config = announced_config(given)
    return Setup(
        config=config,
        profile=config.profile(given.profile).slug,
        state_dir=places.state_dir(given.state_dir, os.environ),
    )


def announced_config(given: Given) -> Config:
    """The configuration; if it holds no servers of the user's own, that is said.

    Raises:
        ConfigError: a file cannot be used.
    """
    config = read_config(given, os.environ, Path.cwd())
    if not config.sources:
        say(f"{nothing_found(os.environ)}; the built-in demo server is used")
    elif not config.servers:
        say(f"no servers in {', '.join(config.sources)}: define them under mcpServers")
    return config


def read_config(given: Given, environ: Mapping[str, str], cwd: Path) -> Config:
    """The files that were named, or else the ones found, or else the demonstration.

    Raises:
        ConfigError: a file cannot be used.
    """
    files = config_files(given, environ, cwd)
    return load(files, environ, judge_filter) if files else demo_config()


def config_files(given: Given, environ: Mapping[str, str], cwd: Path) -> tuple[Path, ...]:
    """The files that were named, or else the one found."""
    if given.config:
        return given.config
    found = find(cwd, places.user_config_dir(environ))
    return () if found is None else (found,)


def nothing_found(environ: Mapping[str, str]) -> str:
    """Where a configuration was looked for in vain."""
    return f"found no {default_places(environ)}"


def default_places(environ: Mapping[str, str]) -> str:
    """Where a configuration is looked for if none is named."""
    return f"{' or '.join(FILE_NAMES)} here or in {places.user_config_dir(environ)}"
