"""Messages up to the size limit that cost a parser, or a regular expression, dearly.

`@` in a message is the id. What becomes of them is not known here.
"""

from typing import Final

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
NODES_MAX: Final = 200_000
"""Values in one message. Both are limits of the gateway."""


def call_line(id: str, tool: str, arguments: bytes) -> bytes:
    """A call as one line, the arguments as they are given."""
    head = b'{"jsonrpc":"2.0","id":"%b","method":"tools/call","params":{"name":"%b","arguments":'
    return head % (id.encode(), tool.encode()) + arguments + b"}}"


def expensive_messages() -> dict[str, bytes]:
    """All of them, by what they are made of."""
    values = _plain() | _for_expressions()
    many = b",".join(b'"k%d":0' % number for number in range(NODES_MAX - 1000))
    envelope = b'{"jsonrpc":"2.0","id":"@","method":"ping",'
    return {
        **{
            kind: call_line("@", "bad__nothing", b'{"value":%b}' % value)
            for kind, value in values.items()
        },
        "members of an argument": call_line("@", "bad__nothing", b'{"value":{%b}}' % many),
        "members of the message": b"%b%b}" % (envelope, many),
        "members of params": b'%b"params":{%b}}' % (envelope, many),
        "members of _meta": b'%b"params":{"_meta":{%b}}}' % (envelope, many),
    }


def _plain() -> dict[str, bytes]:
    room = LINE_BYTES_MAX - 1000
    return {
        "arrays of nothing": b"[%b[]]" % (b"[]," * (room // 3)),
        "objects of nothing": b"[%b{}]" % (b"{}," * (room // 3)),
        "short numbers": b"[%b0]" % (b"123," * (room // 4)),
        "as many numbers as may be": b"[%b0]" % (b"1," * (NODES_MAX - 1000)),
        "short strings": b"[%b0]" % (b'"",' * (NODES_MAX - 1000)),
        "one plain string": b'"%b"' % (b"x" * room),
        "white space": b" " * room + b"0",
    }


def _for_expressions() -> dict[str, bytes]:
    room = LINE_BYTES_MAX - 1000
    return {
        "long numbers": b"[%b0]" % ((b"1" * 1000 + b",") * (room // 1001)),
        "long numbers in a string": b'"%b"' % ((b"7" * 1000 + b" ") * (room // 1001)),
        "escapes": b'"%b"' % (b"\\u005b" * (room // 6)),
        "quotes and brackets": b'"%b%b"' % (b"[" * 1000, b'\\"' * (room // 2 - 1000)),
        "backslashes and brackets": b'"%b%b"' % (b"[" * 1000, b"\\\\" * (room // 2 - 1000)),
        "brackets in strings": b"[%b0]" % (b'"]",' * 45_000 + b'"[",' * 45_000),
        "a string that never ends": b'%b"%b' % (b"[" * 200, b'\\"' * (room // 2 - 200)),
    }
