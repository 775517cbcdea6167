"""A client whose machine loses power: nothing that is sent to it is acknowledged any more.

Its own kernel drops what arrives, by a filter on the socket, so that nobody is told. Linux only; it
needs no privileges.
"""

import ctypes
import socket
import struct
from pathlib import Path
from typing import Final

SO_ATTACH_FILTER: Final = 26
DROP_ALL: Final = struct.pack("HBBI", 0x06, 0, 0, 0)
"""The filter "return 0": keep no byte of any packet."""
KEEP_ALIVE_TIMER: Final = 2


def lose_power(connection: socket.socket) -> None:
    """From now on the other side hears nothing; what is sent still goes out."""
    code = ctypes.create_string_buffer(DROP_ALL, len(DROP_ALL))
    program = struct.pack("HL", 1, ctypes.addressof(code))
    connection.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def probe_seconds(port: int, client_port: int) -> float | None:
    """When the kernel will probe a connection that a server at `port` has accepted."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        ours, theirs = (int(address.partition(":")[2], 16) for address in words[1:3])
        timer, _, when = words[5].partition(":")
        if (ours, theirs) == (port, client_port) and int(timer, 16) == KEEP_ALIVE_TIMER:
            return int(when, 16) / 100
    return None
