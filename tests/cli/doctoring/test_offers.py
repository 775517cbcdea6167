"""What servers offer, judged."""

from anyport.cli.doctoring.finding import Level
from anyport.cli.doctoring.offers import judge_offers, judge_profile
from anyport.config.schema import ProfileConfig
from anyport.protocol.revision import REVISIONS
from anyport.routing.catalog import Entry
from tests.cli.doctoring.facts import codes, examined, the, tool

DEFAULT = ProfileConfig(slug="default", servers=("files", "repo"))
LOOSE = ProfileConfig(slug="loose", servers=("files", "repo"), prefix="on-conflict")


def entry(slug: str, native: str, public: str | None = None, size: int = 10) -> Entry:
    return Entry(public or f"{slug}__{native}", slug, native, b"x" * size)


def test_good_tools_are_not_worth_a_word() -> None:
    assert list(judge_offers(examined("files", tool("read", description="Reads.")))) == []
    assert list(judge_profile(DEFAULT, [entry("files", "read")])) == []


def test_a_very_long_description_is_a_hint() -> None:
    found = list(judge_offers(examined("files", tool("read", description="x" * 3000))))

    assert codes(found, Level.HINT) == ["long-descriptions"]
    assert found[0].about == "files"


def test_schemas_that_break_a_rule_are_told_with_the_advice_of_the_rule() -> None:
    server = examined(
        "files",
        tool("read", inputSchema={"type": "string"}),
        tool("write", inputSchema=None),
        tool("a b"),
        revision=REVISIONS["2025-06-18"],
    )

    found = list(judge_offers(server))

    assert codes(found, Level.WARNING) == ["lint-input-schema"]
    assert codes(found, Level.HINT) == ["lint-tool-name"]
    assert "read" in the(found, "lint-input-schema").what
    assert "write" in the(found, "lint-input-schema").what


def test_what_is_only_worth_a_look_is_left_to_lint() -> None:
    odd = tool("read", annotations={"readOnlyHint": True, "destructiveHint": True})

    assert list(judge_offers(examined("files", odd))) == []


def test_names_that_were_shortened_are_told() -> None:
    short = entry("files", "n" * 80, f"files__{'n' * 40}_0123abcd")

    found = list(judge_profile(DEFAULT, [short, entry("files", "read")]))

    assert codes(found) == ["shortened-names"]
    assert "1 name" in found[0].what


def test_names_that_clients_make_too_long_are_told() -> None:
    assert codes(judge_profile(DEFAULT, [entry("files", "n" * 45)])) == ["long-names"]
    assert codes(judge_profile(DEFAULT, [entry("files", "n" * 40)])) == []


def test_names_clash_only_where_they_have_no_prefix() -> None:
    same = [entry("files", "read", "read"), entry("repo", "read")]

    found = list(judge_profile(LOOSE, same))

    assert codes(found) == ["clashing-names"]
    assert "read (files, repo)" in found[0].what
    assert list(judge_profile(DEFAULT, same)) == []


def test_a_list_that_fills_the_context_is_a_hint() -> None:
    large = [entry("files", "read", size=120 * 1024)]
    many = [entry("files", f"tool{number}") for number in range(120)]

    assert codes(judge_profile(DEFAULT, large)) == ["large-list"]
    assert codes(judge_profile(DEFAULT, many)) == ["many-tools"]
