"""A server on standard input and output, as the gateway sees it: all of it passes to a socket."""

import os
import select
import socket
import sys

CHUNK_BYTES = 65536


def main(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        while True:
            ready, _, _ = select.select([0, server], [], [])
            if 0 in ready:
                said = os.read(0, CHUNK_BYTES)
                if not said:
                    return
                server.sendall(said)
            if server in ready:
                answer = server.recv(CHUNK_BYTES)
                if not answer:
                    return
                while answer:
                    answer = answer[os.write(1, answer) :]


if __name__ == "__main__":
    main(sys.argv[1])
