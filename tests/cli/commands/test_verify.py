"""`anyport verify`."""

import shutil

import pytest

from anyport.record.tamper.chain import Link
from anyport.record.tamper.checkpoints import HEADS_FILE, KEY_FILE, ChainSpan
from tests.cli.stage import Stage
from tests.record.story import file_of, heads_of, written

OURS = "0badcafe"


@pytest.fixture
def head(stage: Stage) -> Link:
    """The head of a journal that is signed."""
    head = written(stage.state, 5)
    heads_of(stage.state).sign(head)
    return head


def test_a_good_journal_is_told_with_its_head(stage: Stage, head: Link) -> None:
    written(stage.state, 2, writer="deadbeef")
    ran = stage.run("verify")
    key = ran.out.splitlines()[-1].removeprefix("key: ")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "good: 7 records of 2 writers in 1 file, "
        "2026-07-28T12:00:00.250000+00:00 to 2026-07-28T12:00:00.250000+00:00\n"
        f"signed: {head} at 2026-07-28T12:00:00.250000+00:00\n"
        "after that: 2 records\n"
        f"key: {key}\n"
    )
    assert stage.run("verify", "--head", str(head), "--key", key.upper()).code == 0


def test_the_first_bad_record_is_named(stage: Stage, head: Link) -> None:
    path = file_of(stage.state)
    path.write_bytes(path.read_bytes().replace(b'"n":3', b'"n":7'))
    ran = stage.run("verify")
    assert ran.code == 1
    assert ran.out.splitlines()[:2] == [
        f"bad: events/2026-07/events.jsonl, line 3: record 3 of writer {OURS} was changed, "
        "or the one before it was",
        "good before that: 2 records of 1 writer in 1 file, "
        "2026-07-28T12:00:00.250000+00:00 to 2026-07-28T12:00:00.250000+00:00",
    ]
    assert "after that" not in ran.out
    assert stage.run("verify", "--json").json["unsigned"] is None


def test_only_what_stands_before_an_inserted_line_is_called_good(stage: Stage, head: Link) -> None:
    path = file_of(stage.state)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b'{"timestamp":"forged"}\n', *lines[3:]]))
    ran = stage.run("verify")
    assert ran.code == 1
    assert ran.out.splitlines()[1].startswith("good before that: 3 records of 1 writer in 1 file, ")


def test_heads_and_key_that_are_both_gone_are_missed_by_who_kept_the_key(
    stage: Stage, head: Link
) -> None:
    (key,) = stage.run("verify", "--json").json["keys"]
    (stage.state / HEADS_FILE).unlink()
    (stage.state / KEY_FILE).unlink()
    for kept in (("--key", key), ("--head", str(head))):
        ran = stage.run("verify", *kept)
        assert ran.code == 1
        bad, fit = ran.out.splitlines()[:2]
        assert bad == "bad: heads.jsonl: signatures are expected, but there are none"
        assert fit.startswith("the chains fit: 5 records of 1 writer in 1 file, ")
    shutil.rmtree(stage.state)
    assert stage.run("verify", "--key", key).code == 1


def test_programs_get_it_as_json(stage: Stage, head: Link) -> None:
    good = stage.run("verify", "--json")
    assert (good.code, good.json["good"], good.json["faults"]) == (0, True, [])
    assert (good.json["head"], good.json["newest"]) == (str(head), str(head))
    assert good.json["records"] == 5

    (stage.state / HEADS_FILE).unlink()
    bad = stage.run("verify", "--json")
    assert (bad.code, bad.json["good"], bad.json["head"]) == (1, False, None)
    (fault,) = bad.json["faults"]
    assert (fault["kind"], fault["file"]) == ("heads", "heads.jsonl")


def test_a_journal_that_nobody_signed_yet_is_good(stage: Stage) -> None:
    written(stage.state, 1)
    ran = stage.run("verify")
    assert ran.code == 0
    assert ran.out.startswith("good: 1 record of 1 writer in 1 file, ")
    assert ran.out.endswith("signed: nothing yet\n")


def test_odd_lines_are_told_on_stderr(stage: Stage) -> None:
    file_of(stage.state).parent.mkdir(parents=True)
    file_of(stage.state).write_bytes(b'{"timestamp":"before the chain"}\n{"timest')
    written(stage.state, 2)
    ran = stage.run("verify")
    assert ran.code == 0
    assert ran.err == (
        "anyport: skipped 1 line that a crash or a full disk left incomplete\n"
        "anyport: 1 record at the beginning has no link of a chain\n"
    )


def test_a_copy_that_was_restored_is_known_by_a_head_that_was_kept(
    stage: Stage, head: Link
) -> None:
    shutil.copytree(stage.state, stage.state.parent / "copy")
    newest = written(stage.state, 4, writer="deadbeef")
    heads_of(stage.state).sign(newest)
    line = (stage.state / HEADS_FILE).read_text().splitlines()[-1]
    shutil.rmtree(stage.state)
    shutil.copytree(stage.state.parent / "copy", stage.state)
    assert stage.run("verify").code == 0
    for kept in (str(newest), line):
        ran = stage.run("verify", "--head", kept)
        assert ran.code == 1
        assert "an older copy was put in its place" in ran.out
    shutil.rmtree(stage.state)
    assert stage.run("verify", "--head", str(newest)).code == 1


def test_the_anchor_of_the_configuration_is_asked(stage: Stage, head: Link) -> None:
    anchor = stage.state.parent / "anchor.jsonl"
    config = stage.state.parent / "anyport.toml"
    config.write_text('[record]\nanchor = "anchor.jsonl"\n')
    ran = stage.run("verify")
    assert (ran.code, ran.out.splitlines()[3]) == (0, "anchor: nothing yet")

    newest = written(stage.state, 4, writer="deadbeef")
    heads_of(stage.state, anchor=anchor).sign(newest)
    ran = stage.run("verify")
    assert (ran.code, ran.out.splitlines()[3]) == (0, "anchor: 1 signed line")
    assert stage.run("verify", "--json").json["anchored"] == 1
    path = file_of(stage.state)
    path.write_bytes(path.read_bytes()[:-400])
    lines = (stage.state / HEADS_FILE).read_text().splitlines(keepends=True)
    (stage.state / HEADS_FILE).write_text(lines[0])
    ran = stage.run("verify")
    assert ran.code == 1
    assert "writer deadbeef is known to have written 4 records" in ran.out


def test_what_retention_took_is_told(stage: Stage, head: Link) -> None:
    span = ChainSpan("deadbeef", 1, 9, "0" * 32, 9)
    heads_of(stage.state).sign_removal(
        "events/2026-01/events.jsonl", 10, "2026-01-31", [span], None
    )
    ran = stage.run("verify")
    assert ran.code == 0
    assert "removed by retention: 9 records, the last of 2026-01-31\n" in ran.out


def test_a_key_that_others_could_read_is_not_trusted(stage: Stage, head: Link) -> None:
    (stage.state / KEY_FILE).chmod(0o640)
    ran = stage.run("verify")
    assert ran.code == 1
    assert "bad: head-key: the key cannot be trusted: users other than its owner" in ran.out


@pytest.mark.parametrize(
    "wrong",
    [("--head", "yesterday"), ("--head", "{}"), ("--head", "0badcafe:0:1"), ("--key", "secret")],
)
def test_a_head_or_key_that_is_none_is_wrong_usage(stage: Stage, wrong: tuple[str, str]) -> None:
    written(stage.state, 1)
    ran = stage.run("verify", *wrong)
    assert (ran.code, ran.out) == (2, "")
    assert "as 'anyport verify' prints" in ran.err


def test_where_nothing_was_recorded_there_is_nothing_to_verify(stage: Stage) -> None:
    ran = stage.run("verify")
    assert (ran.code, ran.out) == (1, "")
    assert "nothing has been recorded yet" in ran.err
