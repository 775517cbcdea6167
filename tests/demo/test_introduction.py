"""Who the server says it is."""

import pytest

from anyport.demo.introduction import capabilities, implementation
from anyport.demo.options import Options
from anyport.demo.revisions import REVISIONS


@pytest.mark.parametrize("revision", REVISIONS)
def test_completions_are_declared_wherever_there_is_a_word_for_it(revision: str) -> None:
    declared = capabilities(Options(), REVISIONS[revision])

    assert ("completions" in declared) is (revision != "2024-11-05")


@pytest.mark.parametrize("revision", REVISIONS)
def test_tasks_are_declared_in_the_words_of_the_revision_if_at_all(revision: str) -> None:
    declared = capabilities(Options(tasks=True), REVISIONS[revision])

    assert ("tasks" in declared) is (revision == "2025-11-25")
    assert ("extensions" in declared) is (revision == "2026-07-28")
    plain = capabilities(Options(), REVISIONS[revision])
    assert plain.keys() & {"tasks", "extensions"} == set()


@pytest.mark.parametrize("revision", REVISIONS)
def test_apps_and_skills_are_declared_in_every_revision(revision: str) -> None:
    declared = capabilities(Options(apps=True, skills=True), REVISIONS[revision])

    assert declared["extensions"] == {
        "io.modelcontextprotocol/ui": {},
        "io.modelcontextprotocol/skills": {"directoryRead": True},
    }


def test_nothing_is_promised_that_would_need_a_stream_where_there_is_none() -> None:
    declared = capabilities(Options(style="json"), REVISIONS["2025-11-25"])

    assert (declared["tools"], declared["resources"]) == ({}, {})


def test_the_oldest_revision_gets_a_name_and_a_version_and_no_more() -> None:
    introduced = implementation(Options(name="me"), REVISIONS["2024-11-05"])

    assert introduced == {"name": "me", "version": "1.0.0"}
