"""A thousand ways to tamper with a journal, each of them seen, and the first bad record named.

Who tampers here can write to every file but the key; what was signed is kept elsewhere, too.
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from anyport.record.journal.segments import segments
from anyport.record.journal.writer import RETRY_SECONDS
from anyport.record.tamper.chain import INITIAL_HASH, Chain, Link, parse_link, strip_link
from anyport.record.tamper.checkpoints import HEADS_FILE, KEY_FILE
from anyport.record.tamper.verify import ExternalEvidence, verify
from tests.record.story import ManualClock, heads_of, note, opened

TAMPERINGS: Final = 1000
WRITERS: Final = ("0badcafe", "deadbeef", "5eaf00d5")
RECORDS: Final = 120
SIGNED: Final = 90
"""Of the records; those after them no head vouches for yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What must be found."""

    kinds: frozenset[str]
    link: Link | None = None
    """The first bad record."""
    place: tuple[str, int] | None = None


class Scene:
    """A journal of three writers in several files, signed and anchored, to be tampered with."""

    def __init__(self, folder: Path) -> None:
        self._whole = folder / "whole"
        self.state = folder / "state"
        self.anchor = folder / "anchor"
        self._write()

    def _write(self) -> None:
        clock = ManualClock()
        journals = {name: opened(self._whole, clock, writer=name) for name in WRITERS}
        draw = random.Random(1)
        signer = heads_of(self._whole, anchor=self.anchor)
        for n in range(RECORDS):
            journal = journals[draw.choice(WRITERS)]
            note(journal, n=n, text=f"record {n}")
            journal.flush()
            if n % 40 == 30:
                active = segments(self._whole / "events")[-1]
                active.rename(active.with_name(f"events-{n // 40 + 1:04}.jsonl"))
                clock.seconds += RETRY_SECONDS
            if n % 30 == 29 and n < SIGNED:
                for each in journals.values():
                    assert each.head is not None
                    signer.sign(each.head)
        for journal in journals.values():
            journal.close()

    def restore(self) -> None:
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.copytree(self._whole, self.state)

    def files(self) -> list[Path]:
        return segments(self.state / "events")

    def read(self) -> list[tuple[Path, int, bytes]]:
        """Every record with its file and its place there."""
        return [
            (path, number, line)
            for path in self.files()
            for number, line in enumerate(path.read_bytes().splitlines())
        ]

    def change(self, path: Path, act: Callable[[list[bytes]], object]) -> None:
        lines = path.read_bytes().splitlines()
        act(lines)
        path.write_bytes(b"".join(line + b"\n" for line in lines))

    def place(self, path: Path, number: int) -> tuple[str, int]:
        return str(path.relative_to(self.state)), number + 1

    def signed_until(self, writer: str) -> int:
        records = [link for _, _, line in self.read()[:SIGNED] if (link := parse_link(line))]
        return sum(link.writer == writer for link in records)


def linked(line: bytes) -> Link:
    link = parse_link(line)
    assert link is not None
    return link


# The ways. Each does one thing at random, and says what must be found.


def edit(scene: Scene, draw: random.Random) -> Found:
    """One byte of what a record says."""
    path, number, line = draw.choice(scene.read())
    at = draw.randrange(len(strip_link(line)) - 1)
    changed = line[:at] + bytes([line[at] ^ draw.choice((1, 2, 4))]) + line[at + 1 :]
    if b"\n" in changed or b"\r" in changed:
        changed = line[:at] + b"?" + line[at + 1 :]
    scene.change(path, lambda lines: lines.__setitem__(number, changed))
    return Found(kinds=frozenset({"edited"}), link=linked(line), place=scene.place(path, number))


def edit_link(scene: Scene, draw: random.Random) -> Found:
    """One digit of the place of a record."""
    path, number, line = draw.choice(scene.read())
    tail = line[len(strip_link(line)) - 1 :]
    digits = [at for at, byte in enumerate(tail) if chr(byte) in "0123456789"]
    at = len(line) - len(tail) + draw.choice(digits)
    changed = line[:at] + (b"0" if line[at : at + 1] != b"0" else b"1") + line[at + 1 :]
    scene.change(path, lambda lines: lines.__setitem__(number, changed))
    kinds = {"edited", "missing", "inserted", "out of order", "rewritten"}
    return Found(kinds=frozenset(kinds))


def delete(scene: Scene, draw: random.Random) -> Found:
    """A record, and not the last of its writer."""
    records = scene.read()
    newest = {linked(line).writer: linked(line).seq for _, _, line in records}
    path, number, line = draw.choice(
        [each for each in records if linked(each[2]).seq < newest[linked(each[2]).writer]]
    )
    scene.change(path, lambda lines: lines.pop(number))
    return Found(kinds=frozenset({"missing"}), link=linked(line))


def insert_copy(scene: Scene, draw: random.Random) -> Found:
    """A record a second time, further down."""
    records = scene.read()
    first = draw.randrange(len(records) - 1)
    path, number, _ = records[draw.randrange(first + 1, len(records))]
    line = records[first][2]
    scene.change(path, lambda lines: lines.insert(number + 1, line))
    found = frozenset({"inserted"})
    return Found(kinds=found, link=linked(line), place=scene.place(path, number + 1))


def insert_bare(scene: Scene, draw: random.Random) -> Found:
    """An event that nobody linked."""
    path, number, line = draw.choice(scene.read())
    scene.change(path, lambda lines: lines.insert(number + 1, strip_link(line)))
    return Found(kinds=frozenset({"inserted"}), place=scene.place(path, number + 1))


def insert_forged(scene: Scene, draw: random.Random) -> Found:
    """An event with a place that follows well on the record before it; the rest does not on it."""
    records = scene.read()
    newest = {linked(line).writer: linked(line).seq for _, _, line in records}
    path, number, line = draw.choice(
        [each for each in records if linked(each[2]).seq < newest[linked(each[2]).writer]]
    )
    after = linked(line)
    chain = Chain(after.writer)
    chain._seq, chain._last_hash = after.seq, after.hash
    forged = chain.link([strip_link(line).replace(b"record", b"forged") + b"\n"])[0][:-1]
    scene.change(path, lambda lines: lines.insert(number + 1, forged))
    # Either could be the wrong one of the two that claim the place, unless a head tells.
    return Found(kinds=frozenset({"inserted", "rewritten"}), link=linked(forged))


def reorder(scene: Scene, draw: random.Random) -> Found:
    """Two records of one writer, one in the place of the other."""
    path = draw.choice(scene.files())
    lines = path.read_bytes().splitlines()
    writer = draw.choice(
        [w for w in WRITERS if sum(linked(line).writer == w for line in lines) >= 2]
    )
    mine = [number for number, line in enumerate(lines) if linked(line).writer == writer]
    early, late = sorted(draw.sample(mine, 2))

    def swap(lines: list[bytes]) -> None:
        lines[early], lines[late] = lines[late], lines[early]

    scene.change(path, swap)
    found = frozenset({"out of order"})
    return Found(kinds=found, link=linked(lines[early]), place=scene.place(path, early))


def cut_tail(scene: Scene, draw: random.Random) -> Found:
    """All from some moment on, before the last head."""
    records = scene.read()
    kept = draw.randrange(SIGNED - 1)
    path, number, _ = records[kept]
    for later in scene.files()[scene.files().index(path) + 1 :]:
        later.unlink()
    scene.change(path, lambda lines: lines.__delitem__(slice(number + 1, None)))
    return Found(kinds=frozenset({"cut", "chain missing"}))


def cut_one_writer(scene: Scene, draw: random.Random) -> Found:
    """The end of one chain; the others stay."""
    writer = draw.choice(WRITERS)
    last = draw.randrange(scene.signed_until(writer))
    for path in scene.files():
        lines = [
            line
            for line in path.read_bytes().splitlines()
            if linked(line).writer != writer or linked(line).seq <= last
        ]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    kind = "cut" if last else "chain missing"
    return Found(kinds=frozenset({kind}), link=Link(writer, last + 1, b""))


def remove_chain(scene: Scene, draw: random.Random) -> Found:
    """All records of one writer."""
    writer = draw.choice(WRITERS)
    for path in scene.files():
        lines = path.read_bytes().splitlines()
        kept = [line for line in lines if linked(line).writer != writer]
        path.write_bytes(b"".join(line + b"\n" for line in kept))
    return Found(kinds=frozenset({"chain missing"}), link=Link(writer, 1, b""))


def remove_file(scene: Scene, draw: random.Random) -> Found:
    """A whole file."""
    draw.choice(scene.files()[:-1]).unlink()
    return Found(kinds=frozenset({"missing", "cut", "chain missing"}))


def rewrite(scene: Scene, draw: random.Random) -> Found:
    """A record that was signed for, and all links after it, made anew."""
    writer = draw.choice(WRITERS)
    victim = draw.randrange(scene.signed_until(writer)) + 1
    relink(scene, writer, victim)
    return Found(kinds=frozenset({"rewritten"}))


def relink(scene: Scene, writer: str, victim: int) -> Link:
    """Change one record and link its chain anew; where that ends."""
    chain = Chain(writer)
    newest = Link(writer, 0, INITIAL_HASH)
    for path in scene.files():
        lines = path.read_bytes().splitlines()
        for at, line in enumerate(lines):
            if linked(line).writer == writer:
                bare = strip_link(line)
                if linked(line).seq == victim:
                    bare = bare.replace(b"record", b"forged")
                lines[at] = chain.link([bare + b"\n"])[0][:-1]
                newest = linked(lines[at])
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    return newest


def sign_with_another_key(scene: Scene, draw: random.Random) -> Found:
    """A chain made anew, and heads for it that are signed, but not with the key."""
    newest = relink(scene, draw.choice(WRITERS), 1)
    key = (scene.state / KEY_FILE).read_bytes()
    (scene.state / HEADS_FILE).unlink()
    (scene.state / KEY_FILE).unlink()
    heads_of(scene.state, key=draw.randrange(2, 255)).sign(newest)
    if draw.random() < 0.5:  # Who replaces the key as well is seen by what is kept elsewhere.
        (scene.state / KEY_FILE).write_bytes(key)
    return Found(kinds=frozenset({"heads", "rewritten"}))


def change_head(scene: Scene, draw: random.Random) -> Found:
    """A digit of a signed statement."""
    path = scene.state / HEADS_FILE
    lines = path.read_bytes().splitlines()
    number = draw.randrange(len(lines))
    at = draw.choice([at for at, byte in enumerate(lines[number]) if chr(byte) in "23456789"])
    changed = lines[number][:at] + b"1" + lines[number][at + 1 :]
    scene.change(path, lambda lines: lines.__setitem__(number, changed))
    return Found(kinds=frozenset({"heads"}))


def remove_head(scene: Scene, draw: random.Random) -> Found:
    """A signed statement that is not the last."""
    path = scene.state / HEADS_FILE
    count = len(path.read_bytes().splitlines())
    scene.change(path, lambda lines: lines.pop(draw.randrange(count - 1)))
    return Found(kinds=frozenset({"heads"}))


def remove_heads_and_key(scene: Scene, draw: random.Random) -> Found:
    """All that is signed, and what it was signed with, after a chain was made anew."""
    relink(scene, draw.choice(WRITERS), 1)
    (scene.state / HEADS_FILE).unlink()
    (scene.state / KEY_FILE).unlink()
    return Found(kinds=frozenset({"heads"}))


def restore_old_copy(scene: Scene, draw: random.Random) -> Found:
    """Everything as it was at some moment: records, and the heads up to there."""
    kept = draw.randrange(29, SIGNED - 30)
    path, number, _ = scene.read()[kept]
    for later in scene.files()[scene.files().index(path) + 1 :]:
        later.unlink()
    scene.change(path, lambda lines: lines.__delitem__(slice(number + 1, None)))
    rounds = (kept + 1) // 30
    scene.change(
        scene.state / HEADS_FILE,
        lambda lines: lines.__delitem__(slice(rounds * len(WRITERS), None)),
    )
    return Found(kinds=frozenset({"restored"}))


WAYS: Final[tuple[Callable[[Scene, random.Random], Found], ...]] = (
    edit,
    edit_link,
    delete,
    insert_copy,
    insert_bare,
    insert_forged,
    reorder,
    cut_tail,
    cut_one_writer,
    remove_chain,
    remove_file,
    rewrite,
    sign_with_another_key,
    change_head,
    remove_head,
    remove_heads_and_key,
    restore_old_copy,
)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_tampering_is_seen_and_its_first_record_named(
    tmp_path: Path, way: Callable[[Scene, random.Random], Found]
) -> None:
    scene = Scene(tmp_path)
    scene.restore()
    outside = ExternalEvidence(anchor=scene.anchor)
    assert verify(scene.state, outside).faults == ()
    for seed in range(-(-TAMPERINGS // len(WAYS))):
        scene.restore()
        found = way(scene, random.Random(seed))
        faults = verify(scene.state, outside).faults
        assert faults, f"seed {seed}: nothing was noticed"
        fault = faults[0]
        assert fault.kind in found.kinds, f"seed {seed}: {fault}"
        if found.link is not None:
            assert (fault.writer, fault.seq) == found.link[:2], f"seed {seed}: {fault}"
        if found.place is not None:
            assert (fault.file, fault.line) == found.place, f"seed {seed}: {fault}"
        if fault.kind not in ("heads", "inserted"):
            assert fault.seq is not None


def test_a_journal_torn_at_any_byte_loses_its_last_record_alone(tmp_path: Path) -> None:
    journal = opened(tmp_path, writer="0badcafe")
    for n in range(3):
        note(journal, n=n, text="torn")
    journal.close()
    (path,) = segments(tmp_path / "events")
    whole = path.read_bytes()
    last = whole[:-1].rindex(b"\n") + 1
    for at in range(last, len(whole)):
        path.write_bytes(whole[:at])
        before = verify(tmp_path, ExternalEvidence())
        kept = 2 if at < len(whole) - 1 else 3  # Only its line end may be missing, too.
        assert before.faults == (), at
        assert (before.records, before.torn_lines) == (kept, int(last < at and kept == 2)), at

        later = opened(tmp_path, writer="deadbeef")
        note(later, n=3)
        later.close()
        after = verify(tmp_path, ExternalEvidence())
        assert after.faults == (), at
        assert (after.records, after.torn_lines) == (kept + 1, before.torn_lines), at
