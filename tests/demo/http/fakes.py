"""A transport that keeps what is written to it."""

import asyncio


class FakeTransport(asyncio.WriteTransport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unread = 0
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.aborted = True

    def body(self) -> bytes:
        return self.written.partition(b"\r\n\r\n")[2]
