"""Checks the shape of the project: what neither the linter nor the type checker can see.

A rule is a function from the project to its faults, and `RULES` names them all. The rules know
files and syntax trees; what the code means is not their business.
"""

import ast
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

MODULE_LINES_MAX: Final = 400  # More does not stay in the head for one reading.
FUNCTION_LINES_MAX: Final = 60  # A function fits on a screen.

PACKAGE: Final = "src/anyport/"
TOUR: Final = "docs/life-of-a-message.md"

UNMIRRORED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gateway/office.py": "types without behaviour",
        "upstream/channel.py": "types without behaviour",
        "upstream/hearer.py": "types without behaviour",
        "upstream/own.py": "types without behaviour",
        "upstream/owner.py": "types without behaviour",
        "upstream/setting.py": "types without behaviour",
    }
)
"""Modules or whole packages (`cli/render.py`, `console`) without a test file of their own, and why.
An entry that is no longer needed is a fault too, so the list shrinks by itself."""

BANNED_WORDS: Final = frozenset(
    {"manager", "service", "helper", "util", "common", "info", "data", "obj", "handler"}
)
OWED_NAMES: Final = frozenset({"data_received", "pipe_data_received"})
"""Methods whose names the standard library chose."""

FOREIGN: Final = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs\.|\bnpmjs\.(?:org|com)|registry\.yarnpkg\."
    r"|(?<![\w.~-])/(?:root|home|work)/"
)
"""Package registries and paths of one machine: right here, wrong for the next person."""

TOUR_PATH: Final = re.compile(
    r"`(?P<code>\w[\w./-]*(?:\.py|\.md|/))(?:::?\w+)?`"
    r"|\]\((?P<link>[^)#:\s]+)(?=[)#])"
)
UNREAD_FOLDERS: Final = frozenset({"__pycache__", "build", "dist", "node_modules"})
READ_DOT_FOLDERS: Final = frozenset({".ci", ".github"})

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    texts: Mapping[str, str]
    """What people wrote, by the path from the root."""
    trees: Mapping[str, ast.Module]
    """The Python among it, parsed."""
    unmirrored: Mapping[str, str]


Rule: TypeAlias = Callable[[Project], Iterator[Fault]]


def modules_are_short(project: Project) -> Iterator[Fault]:
    for path in project.trees:
        lines = len(project.texts[path].splitlines())
        if lines > MODULE_LINES_MAX:
            yield Fault(path, lines, f"{lines} lines; a module has at most {MODULE_LINES_MAX}")


def functions_are_short(project: Project) -> Iterator[Fault]:
    for path, tree in project.trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, Function):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                message = f"{node.name} has {lines} lines; at most {FUNCTION_LINES_MAX} are allowed"
                yield Fault(path, node.lineno, message)


def modules_have_tests(project: Project) -> Iterator[Fault]:
    """`wire/codec.py` is tested by `tests/wire/test_codec.py`."""
    needed = set()
    for path in project.trees:
        module = Path(path.removeprefix(PACKAGE))
        if not path.startswith(PACKAGE) or module.name == "__init__.py":
            continue
        mirror = (Path("tests") / module.parent / f"test_{module.stem.strip('_')}.py").as_posix()
        if mirror in project.texts:
            continue
        exempt = {
            module.as_posix(),
            *map(Path.as_posix, module.parents),
        } & project.unmirrored.keys()
        needed |= exempt
        if not exempt:
            yield Fault(path, 1, f"has no tests; {mirror} is missing")
    for entry in project.unmirrored.keys() - needed:
        yield Fault("tools/shape.py", 1, f"UNMIRRORED no longer needs {entry!r}")


def names_say_something(project: Project) -> Iterator[Fault]:
    """Tests are left out: their names are sentences, and may speak of anything."""
    for path, tree in project.trees.items():
        if path.startswith("tests/"):
            continue
        named = [node for node in ast.walk(tree) if isinstance(node, Function | ast.ClassDef)]
        module = path.removesuffix(".py")
        for name, line in [(module, 1), *((node.name, node.lineno) for node in named)]:
            for word in banned_words(name):
                yield Fault(path, line, f"{name}: the word {word!r} says nothing; name what it is")


def banned_words(name: str) -> set[str]:
    if name in OWED_NAMES:
        return set()
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return (words | {word.removesuffix("s") for word in words}) & BANNED_WORDS


def the_tour_leads_somewhere(project: Project) -> Iterator[Fault]:
    """Every path that the tour of the code names is there."""
    known = set(project.texts)
    known.update(folder.as_posix() for path in project.texts for folder in Path(path).parents)
    for number, text in enumerate(project.texts.get(TOUR, "").splitlines(), start=1):
        for match in TOUR_PATH.finditer(text):
            name = match["code"] or match["link"]
            places = [os.path.normpath(base + name) for base in ("", PACKAGE, "docs/")]
            if known.isdisjoint(places):
                yield Fault(TOUR, number, f"{name} does not exist")


def nothing_is_foreign(project: Project) -> Iterator[Fault]:
    for path, text in project.texts.items():
        for number, line in enumerate(text.splitlines(), start=1):
            if match := FOREIGN.search(line):
                yield Fault(path, number, f"{match[0]} belongs to one machine, not to the project")


RULES: Final[tuple[Rule, ...]] = (
    modules_are_short,
    functions_are_short,
    modules_have_tests,
    names_say_something,
    the_tour_leads_somewhere,
    nothing_is_foreign,
)


def read_project(root: Path, unmirrored: Mapping[str, str] = UNMIRRORED) -> Project:
    texts = {}
    for path in written_files(root):
        try:
            texts[path.relative_to(root).as_posix()] = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # Pictures and the like.
    trees = {path: ast.parse(text, path) for path, text in texts.items() if path.endswith(".py")}
    return Project(texts=texts, trees=trees, unmirrored=unmirrored)


def written_files(root: Path) -> Iterator[Path]:
    """Walks, rather than asking git, so that an unpacked archive is judged like a checkout."""
    for folder, folders, names in os.walk(root):
        folders[:] = [
            name
            for name in folders
            if name in READ_DOT_FOLDERS or not (name.startswith(".") or name in UNREAD_FOLDERS)
        ]
        yield from (Path(folder, name) for name in names if Path(folder, name).is_file())


def faults(project: Project) -> list[Fault]:
    return sorted(fault for rule in RULES for fault in rule(project))


def main() -> int:
    found = faults(read_project(Path(__file__).parent.parent))
    for fault in found:
        print(fault)
    print(f"Shape: {len(found)} to put right." if found else "Shape: good.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
