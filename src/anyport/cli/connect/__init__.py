"""The gateway that a command uses: one started for the command, or one that is running.

`ConnectedGateway` is the interface; `local` and `remote` implement it.
"""

import os
from contextlib import AbstractAsyncContextManager

from anyport.cli.connect.client import ConnectedGateway, ElicitationHandler, NotificationHandler
from anyport.cli.options import SharedOptions


def connect_gateway(
    options: SharedOptions,
    *,
    ask: ElicitationHandler | None = None,
    on_log: NotificationHandler | None = None,
    log_level: str | None = None,
) -> AbstractAsyncContextManager[ConnectedGateway]:
    """The gateway at `--url`, or a new one with the configuration of the command line.

    Raises:
        ConfigError: the configuration cannot be used.
        UnknownProfile: there is no such profile.
        WrongUsage: the options contradict each other.
    """
    # Imported here: what `--url` needs is a small part of what a gateway needs.
    if options.url is None:
        from anyport.cli.connect.local import start_local_gateway  # noqa: PLC0415
        from anyport.cli.setup import read_setup  # noqa: PLC0415

        setup = read_setup(options)
        return start_local_gateway(setup, ask=ask, on_log=on_log, log_level=log_level)
    from anyport.cli.connect.http import read_target  # noqa: PLC0415
    from anyport.cli.connect.remote import connect_remote_gateway  # noqa: PLC0415

    target = read_target(options, os.environ)
    return connect_remote_gateway(target, ask=ask, on_log=on_log, log_level=log_level)
