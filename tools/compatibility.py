"""Tries every client with every server and writes the page: `make compatibility`.

The tests of tests/matrix do the trying, and leave a line for each cell of the matrix in the folder
that `ANYPORT_MATRIX_RESULTS` names. This file makes the page of those lines; what a cell is about,
and why one cannot work, is for the tests to say. If a single cell fails, nothing is written.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "evidence" / "compatibility.md"
RESULTS: Final = "ANYPORT_MATRIX_RESULTS"
COLUMNS: Final = 100

TEXT: Final = """\
# Compatibility

{summary}

{basis}

## Revisions

A row for each revision of the client, a column for each revision of the server. *all* means that
every feature works; otherwise the number of features that work, and the [notes](#notes) about the
others.

{revisions}

## Features

{features}

## Transports

{transports_say}

{transports}

Revision 2026-07-28 does not exist over HTTP+SSE, which is a session on a stream, so these
combinations are not counted.

## Notes

What the protocol makes impossible, and what the caller gets instead.

{notes}

## How it is tested

- For each revision of the client there is one gateway over HTTP and one over stdio, with all
  servers behind it: the test server of `tests/peers`, limited to one revision, for each revision
  and transport.
- The clients are scripts that speak one revision each, and declare everything that it has.
- Every message to a client is validated against the official schema of its revision. None contains
  anything of another era, and no client without a session gets a request.
- A cell that cannot work is tested like all others: the caller gets what its note says.

`make compatibility` tests everything and generates this page; do not edit it. `make test-all` fails
if a cell differs from this page, and `make test` tries every pair of client, server and feature.
"""


class Peer(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A client or a server."""

    revision: str
    transport: str


class Feature(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What is tried."""

    place: int
    """Among all features."""
    name: str
    about: str


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One client, one server, one feature."""

    client: Peer
    server: Peer
    feature: Feature
    note: str | None
    """Why it cannot work, and what the caller gets instead; None if it works."""


def page(cells: Sequence[Cell]) -> str:
    """The whole page."""
    notes = _notes(cells)
    return TEXT.format(
        summary=_filled(_summary(cells)),
        basis=_filled(_basis(cells)),
        revisions=_revisions(cells, notes),
        features=_features(cells, notes),
        transports_say=_transports_say(cells),
        transports=_transports(cells),
        notes="\n".join(_note(number, note, cells) for note, number in notes.items()),
    )


def read_cells(folder: Path) -> list[Cell]:
    """What a run has left behind."""
    lines = [line for file in folder.iterdir() for line in file.read_bytes().splitlines()]
    return [msgspec.json.decode(line, type=Cell) for line in lines]


def _summary(cells: Sequence[Cell]) -> str:
    working = sum(cell.note is None for cell in cells)
    revisions = len({cell.client.revision for cell in cells})
    ways = len({cell.client for cell in cells})
    features = len({cell.feature for cell in cells})
    return (
        f"**{working:,} of {len(cells):,} cells work.** The other {len(cells) - working:,} are "
        f"impossible by the protocol itself. A cell is a client, a server and a feature: "
        f"{revisions} revisions of the protocol over three transports make {ways} kinds of "
        f"clients and as many kinds of servers, and {features} features are tried with each pair."
    )


def _basis(cells: Sequence[Cell]) -> str:
    across = [cell for cell in cells if cell.client.revision != cell.server.revision]
    working = sum(cell.note is None for cell in across)
    return (
        "Every feature that both revisions have works. Between a client and a server of "
        f"different revisions these are {working:,} of {len(across):,} cells; in each of the "
        "others one of the two does not know the feature, or a part of it."
    )


def _notes(cells: Sequence[Cell]) -> dict[str, int]:
    """Every note and its number, in the order of the features."""
    told = {(cell.feature, cell.note) for cell in cells if cell.note is not None}
    # For one feature, what is said of servers stands before what is said of clients.
    ordered = sorted(told, key=lambda one: (one[0], "A client" in (one[1] or "")))
    return {note: number for number, (_, note) in enumerate(ordered, start=1) if note}


def _revisions(cells: Sequence[Cell], notes: dict[str, int]) -> str:
    revisions = sorted({cell.client.revision for cell in cells})

    def at(client: str, server: str) -> str:
        pair = [c for c in cells if (c.client.revision, c.server.revision) == (client, server)]
        features = {cell.feature for cell in pair}
        lacking = {cell.feature for cell in pair if cell.note is not None}
        if not lacking:
            return "all"
        return f"{len(features - lacking)}: {_numbers(pair, notes)}"

    rows = [[client, *(at(client, server) for server in revisions)] for client in revisions]
    return _table(["client \\ server", *revisions], rows)


def _features(cells: Sequence[Cell], notes: dict[str, int]) -> str:
    rows = []
    for feature in sorted({cell.feature for cell in cells}):
        mine = [cell for cell in cells if cell.feature == feature]
        numbers = _numbers(mine, notes)
        rows.append([feature.name, feature.about, _working(mine), numbers])
    return _table(["feature", "what is tried", "works", "notes"], rows)


def _transports(cells: Sequence[Cell]) -> str:
    transports = sorted({cell.client.transport for cell in cells}, key=_by_age)

    def at(client: str, server: str) -> str:
        pair = [c for c in cells if (c.client.transport, c.server.transport) == (client, server)]
        return _working(pair)

    rows = [[client, *(at(client, server) for server in transports)] for client in transports]
    return _table(["client \\ server", *transports], rows)


def _by_age(transport: str) -> tuple[bool, str]:
    return (transport != "stdio", transport)


def _transports_say(cells: Sequence[Cell]) -> str:
    found: dict[tuple[str, str, Feature], set[str | None]] = {}
    for cell in cells:
        where = (cell.client.revision, cell.server.revision, cell.feature)
        found.setdefault(where, set()).add(cell.note)
    words = (
        "A row for each transport of the client, a column for each transport of the server: cells "
        "that work, of all cells."
    )
    if all(len(notes) == 1 for notes in found.values()):
        words += " What works for two revisions works over every transport."
    return _filled(words)


def _note(number: int, note: str, cells: Sequence[Cell]) -> str:
    mine = [cell for cell in cells if cell.note == note]
    clients = _which("clients", (cell.client.revision for cell in mine), cells)
    servers = _which("servers", (cell.server.revision for cell in mine), cells)
    name = mine[0].feature.name
    words = f"{number}. **{name}** ({len(mine)} cells: {clients}, {servers}). {note}"
    return _filled(words, indent="   ")


def _which(kind: str, revisions: Iterable[str], cells: Sequence[Cell]) -> str:
    mine = sorted(set(revisions))
    if len(mine) == len({cell.client.revision for cell in cells}):
        return f"all {kind}"
    return f"{kind} of {' and '.join([', '.join(mine[:-1]), mine[-1]] if mine[1:] else mine)}"


def _numbers(cells: Iterable[Cell], notes: dict[str, int]) -> str:
    return ", ".join(str(n) for n in sorted({notes[cell.note] for cell in cells if cell.note}))


def _working(cells: Sequence[Cell]) -> str:
    counted = Counter(cell.note is None for cell in cells)
    return f"{counted[True]} of {len(cells)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)


def _filled(words: str, indent: str = "") -> str:
    return textwrap.fill(words, COLUMNS, subsequent_indent=indent, break_on_hyphens=False)


def main(run: Callable[..., subprocess.CompletedProcess[bytes]] = subprocess.run) -> int:
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "tests/matrix/test_matrix.py"]
        if run(argv, cwd=ROOT, env={**os.environ, RESULTS: folder}).returncode:
            print("Not every cell is as it should be: the page stays as it was.", file=sys.stderr)
            return 1
        PAGE.write_text(page(read_cells(Path(folder))))
    print(f"Written: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
