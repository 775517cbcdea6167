"""Names that cannot be, names that need permission, and files of NAME=value lines."""

from pathlib import Path

import pytest

from anyport.config.servers import explain_invalid_name, explain_refused_names, read_env_file


@pytest.mark.parametrize("name", ["", "A=B", "A\0B", "A\nB", "A\rB"])
def test_names_no_process_can_have(name: str) -> None:
    assert explain_invalid_name(name)


@pytest.mark.parametrize("name", ["A", "a.b", "npm_config_x", "ProgramFiles(x86)"])
def test_names_a_process_can_have(name: str) -> None:
    assert explain_invalid_name(name) is None


@pytest.mark.parametrize(
    "name",
    """
    LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_X NODE_OPTIONS PYTHONPATH
    PYTHONHOME PYTHONSTARTUP BASH_ENV ENV PERL5OPT PERL5LIB RUBYOPT JAVA_TOOL_OPTIONS IFS PATH Path
    """.split(),  # noqa: SIM905 - a list of names reads best as one.
)
def test_what_decides_which_code_runs_needs_permission(name: str) -> None:
    [refusal] = explain_refused_names([name], [])
    assert refusal == (
        f'sets {name}, which decides what code runs; add permitEnv = ["{name}"] to allow it'
    )
    assert explain_refused_names([name], [name]) == []


def test_other_names_need_none() -> None:
    assert explain_refused_names(["TOKEN", "MY_PATH", "LD", "DYLD"], []) == []


def test_permission_for_one_name_is_not_for_another() -> None:
    assert len(explain_refused_names(["PATH", "LD_PRELOAD"], ["PATH"])) == 1


def test_an_env_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(
        "# comment\n\nA=1\nexport B = two words \nC=\"quoted # no comment\"\nD='x'\nE=\nF=a=b\n"
    )
    assert read_env_file(file) == {
        "A": "1",
        "B": "two words",
        "C": "quoted # no comment",
        "D": "x",
        "E": "",
        "F": "a=b",
    }


def test_an_env_file_that_cannot_be_used_says_why_without_its_text(tmp_path: Path) -> None:
    missing = read_env_file(tmp_path / "none")
    assert missing == "cannot be read: No such file or directory"
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert read_env_file(binary) == "is not UTF-8 text"
    broken = tmp_path / "broken"
    broken.write_text("A=1\nhunter2\n")
    assert read_env_file(broken) == "has a line 2 that is not NAME=value"
    large = tmp_path / "large"
    large.write_bytes(b"A=" + b"x" * (1024 * 1024))
    assert read_env_file(large) == "is larger than 1024 KiB"
