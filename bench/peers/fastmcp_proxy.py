"""FastMCP's proxy in front of one HTTP server, in the environment of FastMCP.

fastmcp_proxy.py PORT URL default    as its documentation shows it: a new session for each call
fastmcp_proxy.py PORT URL shared     a client that is connected already, for all calls
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.server import create_proxy


async def serve(port: int, url: str, sharing: str) -> None:
    if sharing == "shared":
        async with Client(url) as client:
            await run(create_proxy(client), port)
    else:
        await run(create_proxy(url), port)


async def run(proxy, port: int) -> None:
    await proxy.run_http_async(
        show_banner=False,
        host="127.0.0.1",
        port=port,
        log_level="error",
        uvicorn_config={"access_log": False},
    )


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
