"""`anyport stdio`: the gateway on stdin and stdout.

Started by clients that wait for it, so it imports no more than the gateway itself.
"""

import asyncio
import json
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from anyport.cli.ending import FAILED, GOOD, say, talk
from anyport.cli.loop import run
from anyport.cli.options import CONFIG, PROFILE, STATE_DIR, Given
from anyport.cli.recording import obstacle
from anyport.cli.renewing import Renewing, reader
from anyport.cli.setup import Setup, read_setup
from anyport.config.schema import Config
from anyport.gateway.runtime import Gateway
from anyport.ingress.stdio import StdioIngress


def stdio(given: Given) -> int:
    """Serve one client until its input ends, or until SIGTERM; the exit code.

    Raises:
        KeyboardInterrupt: SIGINT came; the gateway has stopped in good order.
    """
    setup = read_setup(given)
    if sys.stdin is not None and sys.stdin.isatty():
        _explain(given)
    return run(_serve(given, setup))


async def _serve(given: Given, setup: Setup) -> int:
    terminated = False
    serving = asyncio.current_task()
    assert serving is not None, "a coroutine runs in a task"

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        serving.cancel()

    with suppress(NotImplementedError):  # Windows has no SIGTERM to speak of.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    try:
        async with Gateway(setup.config, setup.state_dir, sole=True) as gateway:
            refusal = obstacle(gateway)
            if refusal is not None:
                say(refusal)
                return FAILED
            ingress = StdioIngress(
                gateway,
                profile=setup.profile,
                before_write=gateway.journal.flush,
                held=lambda: gateway.relay.sluice.waiting,
            )
            ingress.within(gateway.admission.room)
            gateway.reload.source = reader(given, lambda config: config, partial(_unfit, setup))
            Renewing(gateway, given).begin()
            await ingress.run()
    except asyncio.CancelledError:
        if not terminated:
            raise
    return GOOD


def _unfit(setup: Setup, config: Config) -> str | None:
    """Its one client sees one profile, and cannot be given another."""
    if setup.profile in config.profiles:
        return None
    return f"there is no profile {setup.profile!r} in it, which is in use"


def _explain(given: Given) -> None:
    """A person has started this: say what it is for."""
    options = [word for file in given.config for word in (CONFIG.name, str(file.absolute()))]
    if given.profile is not None:
        options += [PROFILE.name, given.profile]
    if given.state_dir is not None:
        options += [STATE_DIR.name, str(Path(given.state_dir).absolute())]
    entry = {"command": sys.executable, "args": ["-m", "anyport", "stdio", *options]}
    say("an MCP server on stdin and stdout, meant to be started by a client. In its configuration:")
    talk(f'  "mcpServers": {{ "anyport": {json.dumps(entry)} }}')
    say('or type a request, such as {"jsonrpc":"2.0","id":1,"method":"tools/list"}; Ctrl-D ends')
