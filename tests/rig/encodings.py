"""Lines that are no UTF-8 JSON, in every way we know of. `@` in a line is the id."""

from collections.abc import Iterator
from typing import Final

BROKEN_UTF8: Final = {
    "a lone continuation": b"\x80",
    "another lone continuation": b"\xbf",
    "two of them": b"\x80\xbf",
    "half of two": b"\xc3",
    "half of three": b"\xe2\x82",
    "a third of three": b"\xe2",
    "half of four": b"\xf0\x9f\x98",
    "a quarter of four": b"\xf0",
    "an overlong slash": b"\xc0\xaf",
    "an overlong quote": b"\xc0\xa2",
    "an overlong slash of three": b"\xe0\x80\xaf",
    "an overlong slash of four": b"\xf0\x80\x80\xaf",
    "an overlong NUL": b"\xc0\x80",
    "an overlong newline": b"\xc0\x8a",
    "a high surrogate": b"\xed\xa0\x80",
    "a low surrogate": b"\xed\xbf\xbf",
    "a pair of surrogates": b"\xed\xa0\xbd\xed\xb8\x80",
    "beyond the last character": b"\xf4\x90\x80\x80",
    "five bytes": b"\xf8\x88\x80\x80\x80",
    "six bytes": b"\xfc\x84\x80\x80\x80\x80",
    "FE": b"\xfe",
    "FF": b"\xff",
    "the BOM of UTF-16": b"\xff\xfe",
    "latin-1": b"\xe9t\xe9",
    "a continuation that is none": b"\xe2\x28\xa1",
}
PLACES: Final = {
    "before": b'#{"jsonrpc":"2.0","id":"@","method":"tools/call","params":{"name":"bad__echo"}}',
    "in the method": b'{"jsonrpc":"2.0","id":"@","method":"tools/#call","params":{}}',
    "in a name": b'{"jsonrpc":"2.0","id":"@","method":"tools/call","params":{"na#me":"bad__echo"}}',
    "in an argument": (
        b'{"jsonrpc":"2.0","id":"@","method":"tools/call",'
        b'"params":{"name":"bad__echo","arguments":{"text":"a#b"}}}'
    ),
    "in the id": b'{"jsonrpc":"2.0","id":"@#","method":"ping"}',
    "between members": b'{"jsonrpc":"2.0","id":"@",#"method":"ping"}',
    "after": b'{"jsonrpc":"2.0","id":"@","method":"ping"}#',
}
BROKEN_JSON: Final = {
    "NUL": b"\x00",
    "a bell": b"\x07",
    "DEL outside": b"\x7f",
    "half of an escaped pair": b"\\ud83d",
    "the other half": b"\\ude00",
    "halves in the wrong order": b"\\ude00\\ud83d",
    "an escape that is none": b"\\x41",
    "a short escape": b"\\u00",
    "a raw tab": b"\t",
    "form feed": b"\x0c",
}
OTHER_ENCODINGS: Final = ("utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32-be", "utf-32")


def _lines() -> Iterator[tuple[str, bytes]]:
    for place, line in PLACES.items():
        for name, piece in BROKEN_UTF8.items():
            yield f"{name} {place}", line.replace(b"#", piece)
    for name, piece in BROKEN_JSON.items():
        if name != "DEL outside":
            yield f"{name} in an argument", PLACES["in an argument"].replace(b"#", piece)
        if name != "a raw tab":  # White space is allowed there.
            yield f"{name} between members", PLACES["between members"].replace(b"#", piece)
    for codec in OTHER_ENCODINGS:
        for place in ("before", "in the method", "after"):
            text = PLACES[place].replace(b"#", b"").decode()
            yield f"{codec} {place}", text.encode(codec)
    yield "the BOM of UTF-8", b"\xef\xbb\xbf" + PLACES["after"].replace(b"#", b"")
    yield "UTF-7", b"+AHs-" + PLACES["after"].replace(b"#", b"")[1:]


ENCODINGS: Final = dict(_lines())
