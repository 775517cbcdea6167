"""Command line of the demo server."""

import argparse
import asyncio
from typing import Final

from anyport.demo.server import log
from anyport.demo.stdio import serve_stdio

HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65535


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyport demo-server",
        description="A small MCP server on stdin and stdout, or over HTTP, for trying clients and "
        "gateways.",
    )
    parser.add_argument(
        "--http", type=_port, metavar="PORT", help="serve HTTP on this port; 0 picks a free one"
    )
    parser.add_argument("--host", help=f"the address to listen on (default: {HOST})")
    return parser


def main(argv: list[str]) -> int:
    """Serve until the input ends or a signal arrives; returns the exit code."""
    parser = argument_parser()
    options = parser.parse_args(argv)
    if options.http is None and options.host is not None:
        parser.error("--host needs --http")
    host = options.host or HOST
    try:
        if options.http is None:
            asyncio.run(serve_stdio())
            return 0
        # Late import: a server on stdio starts faster without it.
        from anyport.demo.streamable import listen, serve_http  # noqa: PLC0415

        try:
            listener = listen(host, options.http)
        except OSError as error:
            log(f"cannot listen on {host}:{options.http}: {error.strerror}")
            return 1
        asyncio.run(serve_http(listener))
    except KeyboardInterrupt:
        return 130
    return 0


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"must be between 0 and {PORT_MAX}")
    return port
