"""The page that a soak writes says what came of it, and keeps what was not run again."""

from collections import Counter

from tests.rig.fault_accounting import GOOD, Call, FaultAccount, Samples
from tests.rig.long_run import Outcome, Plan
from tests.rig.probe import Footprint
from tools.soak import COLUMNS, read_page, read_rows, table, told_of, told_of_tests, write_page


def outcome(account: FaultAccount) -> Outcome:
    samples = Samples()
    for second in range(60):
        samples.add(second, rss=50 + second / 3600, descriptors=60, processes=12, threads=6)
    before = Footprint(rss_bytes=50 << 20, descriptors=60, processes=12, zombies=0)
    return Outcome(
        plan=Plan(seconds=60, calls_per_second=2 / 60, fault_seconds=5, seed=7),
        account=account,
        samples=samples,
        faults=Counter({"server killed": 2}),
        before=before,
        after=before,
        seconds=60.0,
    )


def account(*outcomes: str) -> FaultAccount:
    found = FaultAccount()
    for number, each in enumerate(outcomes):
        call = Call(server="s", client="modern", began=number, ended=number + 0.01, outcome=each)
        found.note(call)
    return found


def test_what_was_not_run_again_stays_as_it_was() -> None:
    page = write_page({"Fuzzers": "none\n\n| a |", "The long run": "first"})

    assert page.index("The long run") < page.index("Fuzzers")
    assert read_page(page) == {"Fuzzers": "none\n\n| a |", "The long run": "first"}
    assert write_page(read_page(page)) == page


def test_rows_of_tests_are_read_as_they_were_written() -> None:
    rows = [("test_a.test_x[1-2]", "passed", "12", "calls 1,000", "now, 0.5")]
    rows.append(("test_b.test_y", "failure", "0", "", "then, 1.0"))

    assert read_rows(f"Today.\n\n{table(COLUMNS, *rows)}") == rows
    assert read_rows("") == []


def test_files_of_which_nothing_was_run_are_named() -> None:
    text = told_of_tests("fuzz", "Today.", [("test_corpus.test_x", "passed", "60", "", "now, 0.5")])

    assert text.startswith("Today.\n\n1 tests, 1 minutes; none failed.")
    assert "Not run at full scale yet: test_search.\n" in text
    assert "long_run" not in told_of_tests("tests", "Today.", [])
    assert "test_http_strings" in told_of_tests("tests", "Today.", [])


def test_a_good_run_is_told_with_its_figures() -> None:
    good = outcome(account(GOOD, GOOD))
    text = told_of(good, "Today.")

    assert all(good.verdicts().values())
    assert "**no**" not in text
    assert "| calls | 2 |" in text
    assert "| memory, slope | +1.00 ± 0.00 MiB an hour |" in text
    assert "| server killed | 2 |" in text


def test_a_neighbour_that_suffered_spoils_the_run() -> None:
    bad = outcome(account(GOOD, "Server 's' is not running"))

    assert not all(bad.verdicts().values())
    assert "**no**" in told_of(bad, "Today.")


def test_too_few_calls_are_no_load() -> None:
    assert not all(outcome(account(GOOD)).verdicts().values())
