"""The environment a server asks for: which names are possible, and which need permission.

Some variables decide what code a process runs before its own first line. A configuration copied
from somewhere can hide such a one among harmless tokens, so each needs to be permitted by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ENV_FILE_BYTES_MAX: Final = 1024 * 1024
"""A process cannot be given more environment than a few megabytes in any case."""

CODE_DECIDING: Final = frozenset(
    {
        "BASH_ENV",
        "ENV",
        "IFS",
        "JAVA_TOOL_OPTIONS",
        "LD_AUDIT",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NODE_OPTIONS",
        "PATH",
        "PERL5LIB",
        "PERL5OPT",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "RUBYOPT",
    }
)
CODE_DECIDING_PREFIX: Final = "DYLD_"

_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)", re.ASCII)


def name_fault(name: str) -> str | None:
    """Why no process can be given a variable of this name."""
    if not name:
        return "a variable needs a name"
    if "=" in name:
        return "the name of a variable cannot have a '='"
    if re.search(r"[\0\r\n]", name):
        return "the name of a variable cannot have a line break or a NUL"
    return None


def refusals(names: Iterable[str], permitted: Iterable[str]) -> list[str]:
    """A sentence for each name that decides what code runs and is not permitted."""
    # Windows does not tell Path from PATH, so neither does the rule.
    allowed = {name.upper() for name in permitted}
    return [
        f'sets {name}, which decides what code runs; add permitEnv = ["{name}"] to allow it'
        for name in names
        if _decides_code(name) and name.upper() not in allowed
    ]


def read_env_file(file: Path) -> dict[str, str] | str:
    """The variables of a file of NAME=value lines, or what is wrong with the file."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(ENV_FILE_BYTES_MAX + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        return f"cannot be read: {error.strerror or type(error).__name__}"
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    if len(raw) > ENV_FILE_BYTES_MAX:
        return f"is larger than {ENV_FILE_BYTES_MAX // 1024} KiB"
    variables: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        found = _LINE.fullmatch(stripped)
        if not found or "\0" in stripped:
            return f"has a line {number} that is not NAME=value"
        variables[found[1]] = _unquoted(found[2])
    return variables


def _decides_code(name: str) -> bool:
    upper = name.upper()
    return upper in CODE_DECIDING or upper.startswith(CODE_DECIDING_PREFIX)


def _unquoted(value: str) -> str:
    for quote in ('"', "'"):
        if len(value) >= 2 and value.startswith(quote) and value.endswith(quote):
            return value[1:-1]
    return value
