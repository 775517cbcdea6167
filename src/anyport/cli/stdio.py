"""`anyport stdio`: the gateway on stdin and stdout.

Started by clients that wait for it, so it imports no more than the gateway itself.
"""

import asyncio
import json
import signal
import sys
from contextlib import suppress
from pathlib import Path

from anyport.cli.ending import GOOD, say, talk
from anyport.cli.loop import run
from anyport.cli.options import CONFIG, PROFILE, STATE_DIR, Given
from anyport.cli.setup import Setup, read_setup
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
    return run(_serve(setup))


async def _serve(setup: Setup) -> int:
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
            ingress = StdioIngress(
                gateway, profile=setup.profile, before_write=gateway.journal.flush
            )
            await ingress.run()
    except asyncio.CancelledError:
        if not terminated:
            raise
    return GOOD


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
