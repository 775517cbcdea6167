"""`anyport stdio`: the gateway on stdin and stdout.

Clients wait for it to start, so it imports little more than the gateway itself.
"""

import asyncio
import json
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from anyport.cli.exit_codes import FAILED, SUCCESS, notify_user, print_stderr, run_async
from anyport.cli.options import (
    COMMAND_SEPARATOR,
    CONFIG,
    PROFILE,
    STATE_DIR,
    TRANSPARENT,
    SharedOptions,
)
from anyport.cli.serve.config_watch import ConfigWatcher, make_config_reader
from anyport.cli.setup import Setup, read_setup, record_obstacle
from anyport.config.model import Config
from anyport.gateway.gateway import Gateway
from anyport.gateway.local.notifications import SoleClient
from anyport.ingress.stdio import StdioIngress


def stdio(options: SharedOptions) -> int:
    """Serve one client until its input ends, or until SIGTERM; the exit code.

    Raises:
        KeyboardInterrupt: on SIGINT, after the gateway has stopped.
    """
    setup = read_setup(options)
    if sys.stdin is not None and sys.stdin.isatty():
        _print_usage_hint(options)
    return run_async(_serve(options, setup))


async def _serve(options: SharedOptions, setup: Setup) -> int:
    terminated = False
    serving = asyncio.current_task()
    assert serving is not None, "a coroutine runs in a task"

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        serving.cancel()

    with suppress(NotImplementedError):  # Windows does not support it.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    try:
        async with Gateway(setup.config, setup.state_dir, sole=True) as gateway:
            refusal = record_obstacle(gateway)
            if refusal is not None:
                notify_user(refusal)
                return FAILED
            ingress = StdioIngress(
                gateway,
                profile=setup.profile,
                before_write=gateway.journal.flush,
                unrecorded_answers=lambda: gateway.relay.durability.waiting_count,
            )
            gateway.notifications.sole_client = SoleClient(
                setup.profile, ingress.conversation.notify_client
            )
            ingress.share_limits(gateway.admission.memory_budget, gateway.scheduler)
            gateway.reload.source = make_config_reader(
                options, lambda config: config, partial(_check_profile, setup)
            )
            ConfigWatcher(gateway, options).start()
            await ingress.run()
    except asyncio.CancelledError:
        if not terminated:
            raise
    return SUCCESS


def _check_profile(setup: Setup, config: Config) -> str | None:
    """The profile in use cannot be removed by a reload."""
    if setup.profile in config.profiles:
        return None
    return f"it has no profile {setup.profile!r}, which is in use"


def _print_usage_hint(options: SharedOptions) -> None:
    """For a person who starts it at a terminal."""
    args = [word for file in options.config for word in (CONFIG.name, str(file.absolute()))]
    if options.profile is not None:
        args += [PROFILE.name, options.profile]
    if options.state_dir is not None:
        args += [STATE_DIR.name, str(Path(options.state_dir).absolute())]
    if options.transparent:
        args.append(TRANSPARENT.name)
    if options.command:
        args += [COMMAND_SEPARATOR, *options.command]
    entry = {"command": sys.executable, "args": ["-m", "anyport", "stdio", *args]}
    notify_user(
        "this is an MCP server on stdin and stdout, for clients to start. Add it to a client with:"
    )
    print_stderr(f'  "mcpServers": {{ "anyport": {json.dumps(entry)} }}')
    notify_user(
        'or type a request, such as {"jsonrpc":"2.0","id":1,"method":"tools/list"}; Ctrl-D ends'
    )
