"""Runs the everything-server of the official Python SDK, which the suite was written against.

    python reference.py FOLDER TRANSPORT PORT [EXTENSION]

A script that runs in an environment of its own, `.real/sdk1` or `.real/sdk2`; the folder is where
the package of the server is. An extension is a module of `servers`, which makes it a server of one
era that asks what clients of the other one are asked by the suite.
"""

import importlib
import logging
import sys


def main() -> None:
    folder, transport, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    sys.path.insert(0, folder)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    module = importlib.import_module("mcp_everything_server.server")
    for extension in sys.argv[4:]:
        importlib.import_module(f"servers.{extension}").extend(module)
    if hasattr(module.mcp, "settings") and hasattr(module.mcp.settings, "port"):  # mcp 1.x
        module.mcp.settings.port = port
        module.mcp.run(transport=transport)
    elif transport == "stdio":
        module.mcp.run(transport=transport)
    elif transport == "sse":
        module.mcp.run(transport=transport, port=port)
    else:  # As the server starts itself, which it does on this transport only.
        module.mcp.run(
            transport=transport, port=port, event_store=module.event_store, retry_interval=100
        )


main()
