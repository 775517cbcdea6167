"""Questions in the words of each revision."""

from anyport.demo import questions
from anyport.demo.revisions import REVISIONS


def test_a_form_names_its_mode_only_where_there_is_another() -> None:
    first = questions.form(REVISIONS["2025-06-18"])
    later = questions.form(REVISIONS["2025-11-25"])

    assert first.params is not None and later.params is not None
    assert "mode" not in first.params
    assert later.params["mode"] == "form"
    assert later.capability == {"elicitation": {"form": {}}}


def test_sugar_is_a_form_too() -> None:
    asked = questions.sugar(REVISIONS["2026-07-28"])

    assert asked.params is not None
    assert list(asked.params["requestedSchema"]["properties"]) == ["sugar"]
    assert (asked.key, asked.params["mode"]) == ("sugar", "form")


def test_only_one_revision_numbers_its_pages() -> None:
    numbered = questions.url(REVISIONS["2025-11-25"], "e1").params
    plain = questions.url(REVISIONS["2026-07-28"], "e1").params

    assert numbered is not None and numbered["elicitationId"] == "e1"
    assert plain is not None and "elicitationId" not in plain


def test_a_question_without_params_has_none_on_the_wire() -> None:
    assert questions.roots().body() == {"method": "roots/list"}
