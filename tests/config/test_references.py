"""References resolve, or say in a sentence why not; nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.config.references import resolve_references

ENVIRON = {"TOKEN": "t0k3n", "EMPTY": "", "HOST": "example.com", "ProgramFiles(x86)": "C:\\P"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("${env:TOKEN}", "t0k3n"),
        ("${ env:TOKEN }", "t0k3n"),
        ("${TOKEN}", "t0k3n"),
        ("Bearer ${env:TOKEN}", "Bearer t0k3n"),
        ("https://${HOST}/${env:TOKEN}", "https://example.com/t0k3n"),
        ("${env:NONE | value:fallback}", "fallback"),
        ("${env:NONE|env:TOKEN}", "t0k3n"),
        ("${env:NONE | env:EMPTY | value:last}", "last"),
        ("${env:TOKEN | value:fallback}", "t0k3n"),
        ("${env:NONE | value:}", ""),
        ("${env:NONE | value:a|b c}", "a|b c"),
        ("${NONE:-fallback}", "fallback"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b}", "a:-b"),
        ("${EMPTY:-fallback}", "fallback"),
        ("${TOKEN:-fallback}", "t0k3n"),
        ("${env:ProgramFiles(x86)}", "C:\\P"),
        ("costs $5, $TOKEN, $$, $", "costs $5, $TOKEN, $$, $"),
        ("${value:$}{TOKEN}", "${TOKEN}"),
    ],
)
def test_what_resolves(text: str, value: str) -> None:
    resolved = resolve_references(text, ENVIRON)
    assert (resolved.value, resolved.faults) == (value, ())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("${env:NONE}", "needs the environment variable NONE, which is not set"),
        ("${NONE}", "needs the environment variable NONE, which is not set"),
        ("${env:EMPTY}", "needs the environment variable EMPTY, which is empty"),
        ("${EMPTY}", "needs the environment variable EMPTY, which is empty"),
        (
            "${env:NONE | env:EMPTY}",
            "needs one of the environment variables NONE, EMPTY; none has a value",
        ),
        ("${env:NONE |}", "needs the environment variable NONE, which is not set"),
        (
            "${input:token}",
            "asks for an input, which only an editor can ask for; write ${env:NAME} instead",
        ),
        ("${vault:x}", "has a reference of the unknown kind 'vault:'; known are env: and value:"),
        ("${env:}", "has ${env:} without a name"),
        ("${}", "has an empty reference ${}"),
        (
            "${{ secrets.X }}",
            "has a reference in a form that is not understood; write ${env:NAME}",
        ),
        ("${env:TOKEN", "has '${' without a closing '}'"),
        ("${workspaceFolder}/x", "uses ${workspaceFolder}, which only an editor fills in"),
    ],
)
def test_what_does_not_resolve_says_why(text: str, fault: str) -> None:
    assert resolve_references(text, ENVIRON).faults == (fault,)


def test_the_names_asked_for_and_the_values_found_are_told() -> None:
    resolved = resolve_references("${env:NONE | env:TOKEN} ${HOST} ${HOST} ${X:-y}", ENVIRON)
    assert resolved.names == ("NONE", "TOKEN", "HOST", "X")
    assert resolved.secrets == {"t0k3n", "example.com"}


def test_a_value_from_the_environment_is_not_read_again() -> None:
    resolved = resolve_references("${A}", {"A": "${B}", "B": "never"})
    assert resolved.value == "${B}"


def test_faults_quote_neither_fallbacks_nor_what_is_not_understood() -> None:
    resolved = resolve_references(
        "${op://vault/hunter2} ${hunter2 x} ${vault:hunter2 | value:hunter2", {}
    )
    assert resolved.faults
    assert not any("hunter2" in fault for fault in resolved.faults)


@given(st.text(alphabet="${}:-|envalue AB\n"))
def test_nothing_raises(text: str) -> None:
    resolve_references(text, {"A": "1", "B": ""})


@given(
    st.lists(
        st.sampled_from(
            ["${A}", "${env:A}", "${B}", "${B:-x}", "${x:y}", "${", "$A", "$", "}", "w"]
        )
    )
)
def test_no_reference_survives(words: list[str]) -> None:
    assert "${" not in resolve_references(" ".join(words), {"A": "1", "B": ""}).value
