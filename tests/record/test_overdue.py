from pathlib import Path

from anyport.gateway.upkeep import HEAD_SECONDS, LOOK_SECONDS
from anyport.record.chain import Chain, Link
from anyport.record.heads import FILE
from anyport.record.overdue import ENDED_SECONDS, SIGNED_SECONDS
from anyport.record.verify import Outside, verify
from tests.record.story import NOON, ONE, ManualClock, file_of, heads_of, note, opened

OURS = "0badcafe"


def unsigned(directory: Path, seconds: float, *, stopped: bool) -> Link:
    """A gateway that wrote for a while and signed nothing, or whose heads were removed."""
    clock = ManualClock()
    journal = opened(directory, clock, writer=OURS)
    note(journal)
    clock.now += seconds
    if stopped:
        journal.note("gateway.stopped", "success", trace_id=ONE, metadata={})
    else:
        note(journal)
    journal.close()
    assert journal.head is not None
    return journal.head


def complaints(directory: Path, *, later: float = 0.0) -> list[str]:
    """What is wrong so long after noon."""
    return [str(fault) for fault in verify(directory, Outside(), clock=lambda: NOON + later).faults]


def test_a_gateway_has_signed_long_before_it_is_expected_to() -> None:
    assert SIGNED_SECONDS > 2 * (HEAD_SECONDS + LOOK_SECONDS)


def test_a_gateway_that_ended_has_signed(tmp_path: Path) -> None:
    unsigned(tmp_path, 1, stopped=True)
    assert complaints(tmp_path, later=2) == []  # It may be about to sign.
    assert complaints(tmp_path, later=ENDED_SECONDS + 2) == [
        f"heads.jsonl: nothing is signed, though writer {OURS} ended in good order: "
        "the heads are gone"
    ]


def test_a_gateway_that_wrote_for_long_has_signed(tmp_path: Path) -> None:
    unsigned(tmp_path, SIGNED_SECONDS + 1, stopped=False)
    assert complaints(tmp_path, later=SIGNED_SECONDS + 1) == [
        f"heads.jsonl: nothing is signed, though writer {OURS} wrote for longer than signing "
        "takes: the heads are gone"
    ]


def test_heads_that_were_emptied_are_missed_too(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(unsigned(tmp_path, 1, stopped=True))
    assert complaints(tmp_path, later=1e6) == []
    (tmp_path / FILE).write_bytes(b"")
    (complaint,) = complaints(tmp_path, later=1e6)
    assert "nothing is signed" in complaint


def test_gateways_that_were_killed_young_have_signed_nothing_and_raise_no_alarm(
    tmp_path: Path,
) -> None:
    for days in range(3):
        journal = opened(tmp_path, ManualClock(NOON + days * 86400))
        for n in range(300):
            note(journal, n=n)
        journal.close()
    assert complaints(tmp_path, later=1e6) == []


def test_records_that_no_gateway_wrote_are_no_reason(tmp_path: Path) -> None:
    file_of(tmp_path).parent.mkdir(parents=True)
    lines = [b'{"timestamp":"0001-01-01T00:00:00","event_type":"gateway.stopped"}\n', b'{"n":1}\n']
    file_of(tmp_path).write_bytes(b"".join(Chain(OURS).link(lines)))
    assert complaints(tmp_path, later=1e6) == []


def test_a_tombstone_is_a_signature_too(tmp_path: Path) -> None:
    unsigned(tmp_path, 1, stopped=True)
    heads_of(tmp_path).bury("events/2026-06/events.jsonl", 10, "2026-06-30", [], None)
    assert complaints(tmp_path, later=1e6) == []
