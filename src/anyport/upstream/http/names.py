"""Looking up the names of servers, each in a thread of its own.

The system's resolver cannot be interrupted: a name server that does not answer holds a thread for
as long as it likes. Loops have a handful of threads for all lookups together, and two such names
would be enough for every other server to seem unreachable. Who asks for a name that is being
looked up waits with the others, so that there is never more than one thread for a name.
"""

import asyncio
import ipaddress
import socket
import threading
from concurrent.futures import Future
from typing import Final

Address = tuple[str, int]
"""A numeric host and a port."""

_under_way: Final[dict[tuple[str, int], "Future[list[Address]]"]] = {}


async def addresses(host: str, port: int) -> list[Address]:
    """Where a host can be reached, best first.

    Raises:
        socket.gaierror: nobody knows the name.
    """
    if is_numeric(host):
        return [(host, port)]
    lookup = _under_way.get((host, port))
    if lookup is None:
        lookup = _under_way[host, port] = Future()
        # From now on nobody can cancel it: others may be waiting for it too.
        lookup.set_running_or_notify_cancel()
        # A daemon: a gateway that is to stop does not wait for a name.
        threading.Thread(target=_look_up, args=(host, port, lookup), daemon=True).start()
    return await asyncio.wrap_future(lookup)


def is_numeric(host: str) -> bool:
    """Whether a host is an address already."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _look_up(host: str, port: int, lookup: "Future[list[Address]]") -> None:
    fault: OSError | None = None
    answer: list[Address] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answer = [(str(address[0]), int(address[1])) for *_, address in found]
    except OSError as error:
        fault = error
    except UnicodeError:  # What is no name at all cannot even be asked for.
        fault = socket.gaierror(socket.EAI_NONAME, "not a name")
    _under_way.pop((host, port), None)
    if fault is None:
        lookup.set_result(answer)
    else:
        lookup.set_exception(fault)
