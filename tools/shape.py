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
from typing import Final, TypeAlias

PACKAGE: Final = "src/anyport/"
TOUR: Final = "docs/contributing/life-of-a-message.md"

CALLED_BY_LIBRARIES: Final = re.compile(
    r"(visit|do|log)_\w+|(data|eof|pipe_data)_received|connection_(made|lost)|(pause|resume)_writing"
    r"|process_exited|pipe_connection_lost|on_(url|header)|format_help"
)
"""Methods that asyncio, ast, httptools and click find by their names."""
QUOTED_NAME_CHARS_MAX: Final = 100

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


Rule: TypeAlias = Callable[[Project], Iterator[Fault]]


def class_names_are_unique(project: Project) -> Iterator[Fault]:
    first: dict[str, str] = {}
    for path, tree in package_trees(project):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                other = first.setdefault(node.name, path)
                if other != path:
                    yield Fault(path, node.lineno, f"{node.name} is also a class of {other}")


def public_names_are_used(project: Project) -> Iterator[Fault]:
    """What only tests use is dead. By name alone: a name in use elsewhere hides a dead one."""
    used = {name for _, tree in package_trees(project) for name in used_names(tree)}
    for path, tree in package_trees(project):
        for name, line in public_names(tree):
            if name not in used and not CALLED_BY_LIBRARIES.fullmatch(name):
                yield Fault(path, line, f"{name} is used by nothing in {PACKAGE}")


def public_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Functions, classes and constants of a module, and methods of its classes."""
    methods = [method for cls in tree.body if isinstance(cls, ast.ClassDef) for method in cls.body]
    for node in [*tree.body, *methods]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            # `@click.command()` and the like put it to use.
            registered = any(isinstance(each, ast.Call) for each in node.decorator_list)
            if not node.name.startswith("_") and not registered:
                yield node.name, node.lineno
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            if name.isupper() and not name.startswith("_"):
                yield name, node.lineno


def used_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # Quoted annotations, and what is loaded by its path; not the words of a docstring.
            yield from re.findall(r"\w+", node.value[:QUOTED_NAME_CHARS_MAX])


def package_trees(project: Project) -> Iterator[tuple[str, ast.Module]]:
    return ((path, tree) for path, tree in project.trees.items() if path.startswith(PACKAGE))


def the_tour_leads_somewhere(project: Project) -> Iterator[Fault]:
    """Every path that the tour of the code names is there."""
    known = set(project.texts)
    known.update(folder.as_posix() for path in project.texts for folder in Path(path).parents)
    for number, text in enumerate(project.texts.get(TOUR, "").splitlines(), start=1):
        for match in TOUR_PATH.finditer(text):
            name = match["code"] or match["link"]
            places = [os.path.normpath(base + name) for base in ("", PACKAGE, "docs/contributing/")]
            if known.isdisjoint(places):
                yield Fault(TOUR, number, f"{name} does not exist")


def nothing_is_foreign(project: Project) -> Iterator[Fault]:
    for path, text in project.texts.items():
        for number, line in enumerate(text.splitlines(), start=1):
            if match := FOREIGN.search(line):
                yield Fault(path, number, f"{match[0]} belongs to one machine, not to the project")


RULES: Final[tuple[Rule, ...]] = (
    class_names_are_unique,
    public_names_are_used,
    the_tour_leads_somewhere,
    nothing_is_foreign,
)


def read_project(root: Path) -> Project:
    texts = {}
    for path in written_files(root):
        try:
            texts[path.relative_to(root).as_posix()] = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # Pictures and the like.
    trees = {path: ast.parse(text, path) for path, text in texts.items() if path.endswith(".py")}
    return Project(texts=texts, trees=trees)


def written_files(root: Path) -> Iterator[Path]:
    """Walks, rather than asking git, so that an unpacked archive is judged like a checkout."""
    for folder, folders, names in os.walk(root):
        folders[:] = [
            name
            for name in folders
            if name in READ_DOT_FOLDERS or not (name.startswith(".") or name in UNREAD_FOLDERS)
        ]
        # In a linked worktree `.git` is a file, with a path of this machine.
        paths = (Path(folder, name) for name in names if name != ".git")
        yield from (path for path in paths if path.is_file())


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
