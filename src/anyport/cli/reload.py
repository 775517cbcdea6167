"""`anyport reload`: has a running gateway take over its configuration, and tells what changed."""

import os
from dataclasses import replace
from pathlib import Path

import msgspec

from anyport.cli.ending import GOOD, CommandFailed
from anyport.cli.loop import run
from anyport.cli.options import Given
from anyport.cli.reach import API, Reach
from anyport.cli.ready import EVERYWHERE
from anyport.cli.render import out, out_json
from anyport.cli.renewing import told
from anyport.cli.setup import read_config
from anyport.cli.target import Target, read_target
from anyport.config.faults import ConfigError
from anyport.gateway.api.answers import Reloaded
from anyport.gateway.changes import Changes


def reload(given: Given) -> int:
    """Have the gateway at `--url`, or where the configuration says, reload; the exit code.

    Raises:
        CommandFailed: nobody is there, or the configuration cannot be used.
    """
    found = msgspec.json.decode(run(asked(running_gateway(given))), type=Reloaded)
    if given.json:
        out_json(msgspec.to_builtins(found), indent=2)
        return GOOD
    for line in told(
        Changes(
            added=found.added,
            removed=found.removed,
            changed=found.changed,
            profiles=found.profiles,
            sections=found.settings,
            at_start=found.at_start,
        )
    ):
        out(line)
    return GOOD


async def asked(target: Target, query: str = "") -> bytes:
    """What the gateway answers to the request to reload."""
    reach = Reach(target)
    try:
        return await reach.post(f"{API}/reload{query}")
    finally:
        reach.close()


def running_gateway(given: Given) -> Target:
    """The gateway that is meant: the one that is named, or the one of this configuration."""
    if given.url is not None:
        return read_target(given, os.environ)
    try:
        config = read_config(given, os.environ, Path.cwd())
    except ConfigError as error:
        words = "so it is not known where the gateway listens: name it with --url, or mend it first"
        raise CommandFailed(f"the configuration cannot be read, {words}\n{error}") from None
    host = "127.0.0.1" if config.gateway.host in EVERYWHERE else config.gateway.host
    place = f"[{host}]" if ":" in host else host
    url = f"http://{place}:{config.gateway.port}"
    return read_target(replace(given, url=url, config=(), state_dir=None), os.environ)
