"""Measures how easily a code base is read: `python tools/survey.py [FOLDER ...]`.

Prints the size of each package of Anyport, or one column of figures for each package folder given,
so that other code bases can be set beside it. The figures are for people; no gate depends on them.
"""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[1] / "src" / "anyport"
SHORT_MODULE_LINES: Final = 60

MANNERED: Final = (
    "nobody",
    "somebody",
    "whoever",
    "is told",
    "are told",
    "stands",
    "lies",
    "so many",
    "lest",
    "shall",
    "mend",
    "what is left of",
    "how it comes to",
)
"""Old-fashioned words that hide the term of the field; counted in comments and docstrings."""

IRREGULAR_PARTICIPLES: Final = re.compile(
    "born|bound|broken|brought|built|caught|come|done|drawn|driven|fallen|felt|forgotten|found|given"
    "|gone|got|grown|heard|held|kept|known|laid|left|lent|lost|made|meant|met|over|paid|said|seen"
    "|sent|shown|sought|spent|spoken|stood|struck|taken|thought|thrown|told|torn|understood|woken"
    "|won|worn|written"
)
VERBS_IN_ED: Final = re.compile("bleed|breed|embed|(ex|pro|suc)ceed|feed|heed|need|seed|shed|speed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    name: str
    """As it is imported: `anyport.wire.sse`."""
    path: Path
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name if self.is_init else self.name.rpartition(".")[0]

    @property
    def is_init(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


@dataclass(frozen=True, slots=True)
class Codebase:
    name: str
    modules: Sequence[Module]
    """Without `__init__.py` files that hold no code."""


@dataclass(slots=True)
class Class:
    """A class and what its instances offer."""

    name: str
    bases: Sequence[str]
    is_protocol: bool
    members: set[str] = field(default_factory=set)


def read_codebase(folder: Path) -> Codebase:
    """Read a package and its subpackages, without tests that it ships."""
    folder = folder.resolve()
    modules = []
    for path in sorted(folder.rglob("*.py")):
        if "tests" in path.relative_to(folder).parts:
            continue
        text = path.read_text("utf-8")
        tree = ast.parse(text, str(path))
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if path.name == "__init__.py" else parts)
        if path.name != "__init__.py" or len(tree.body) > (ast.get_docstring(tree) is not None):
            modules.append(Module(name=name, path=path, text=text, tree=tree))
    return Codebase(folder.name, modules)


def measure(codebase: Codebase) -> dict[str, str]:
    """Every figure by its name, in the order in which they are shown."""
    modules = codebase.modules
    lines = sum(module.lines for module in modules)
    lengths = sorted(module.lines for module in modules)
    functions = sorted(length(node) for module in modules for node in functions_of(module.tree))
    importers = importers_by_module(modules)
    package, widest = Counter(module.package for module in modules).most_common(1)[0]
    names = class_names(modules)
    protocols = implementations(modules)
    return {
        "modules": f"{len(modules):,}",
        "lines": f"{lines:,}",
        "most modules in one package": f"{widest} ({package})",
        "module median / p90 / max": " / ".join(
            str(value) for value in (median(lengths), percentile(lengths, 90), lengths[-1])
        ),
        f"modules < {SHORT_MODULE_LINES} lines": str(sum(n < SHORT_MODULE_LINES for n in lengths)),
        "modules with one importer": str(sum(len(found) == 1 for found in importers.values())),
        "functions": f"{len(functions):,}",
        "function median / p95 / max": " / ".join(
            str(value) for value in (median(functions), percentile(functions, 95), functions[-1])
        ),
        "classes": f"{sum(map(len, names.values())):,}",
        "class names used for several": str(sum(len(found) > 1 for found in names.values())),
        "Protocols": str(len(protocols)),
        "  with one implementation": str(sum(len(found) == 1 for found in protocols.values())),
        "dataclasses of callables": str(len(callable_dataclasses(modules))),
        "comments, share of lines": share(sum(comment_lines(m.text) for m in modules), lines),
        "docstrings, share of lines": share(sum(docstring_lines(m.tree) for m in modules), lines),
        "imports, share of lines": share(sum(import_lines(m.tree) for m in modules), lines),
        "bare participles as methods": str(len(participle_methods(modules))),
        "mannered words": str(sum(mannered_words(modules).values())),
    }


def length(node: ast.stmt | ast.expr) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def median(values: Sequence[int]) -> int:
    return round(statistics.median(values))


def percentile(values: Sequence[int], percent: int) -> int:
    """The nearest-rank percentile of sorted values."""
    return values[-(-len(values) * percent // 100) - 1]


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}"


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def importers_by_module(modules: Sequence[Module]) -> Mapping[str, set[str]]:
    """The other modules of the code base that import each one; entry points have none."""
    names = {module.name for module in modules}
    importers: dict[str, set[str]] = {
        module.name: set() for module in modules if not module.is_init
    }
    for module in modules:
        for name in imported_names(module):
            found = name if name in names else name.rpartition(".")[0]
            if found in importers and found != module.name:
                importers[found].add(module.name)
    return importers


def imported_names(module: Module) -> Iterator[str]:
    """Dotted names. Of `from a import b` either `a` or `a.b` is the module: this gives `a.b`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.package.split(".")
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def classes_of(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def class_names(modules: Sequence[Module]) -> Mapping[str, list[str]]:
    """The modules of each class name, one for each class."""
    found = defaultdict(list)
    for module in modules:
        for node in classes_of(module.tree):
            found[node.name].append(module.name)
    return found


def last_name(node: ast.expr) -> str:
    """`Protocol` of `typing.Protocol[T]`."""
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def implementations(modules: Sequence[Module]) -> Mapping[str, list[str]]:
    """The classes that have every member of each Protocol, without those that only inherit them."""
    classes = [class_of(node) for module in modules for node in classes_of(module.tree)]
    by_name = {each.name: each for each in classes}

    def members(name: str, seen: frozenset[str] = frozenset()) -> set[str]:
        if name in seen or name not in by_name:
            return set()
        of_bases = (members(base, seen | {name}) for base in by_name[name].bases)
        return by_name[name].members.union(*of_bases)

    found: dict[str, list[str]] = {}
    for protocol in classes:
        needed = members(protocol.name)
        if not protocol.is_protocol:
            continue
        found[protocol.name] = [
            each.name
            for each in classes
            if needed
            and not each.is_protocol
            and needed <= each.members.union(members(each.name))
            and not any(
                needed <= members(base) and not by_name[base].is_protocol
                for base in each.bases
                if base in by_name
            )
        ]
    return found


def class_of(node: ast.ClassDef) -> Class:
    bases = [last_name(base) for base in node.bases]
    found = Class(node.name, bases, "Protocol" in bases)
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            found.members.add(statement.name)
            found.members.update(assigned_to_self(statement))
        elif isinstance(statement, ast.AnnAssign | ast.Assign):
            found.members.update(target_names(statement))
    # Every class has these, whatever a Protocol says of their signatures.
    found.members -= {"__init__", "__slots__", "__doc__"}
    return found


def assigned_to_self(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                yield node.attr


def target_names(statement: ast.AnnAssign | ast.Assign) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return (target.id for target in targets if isinstance(target, ast.Name))


def callable_dataclasses(modules: Sequence[Module]) -> list[str]:
    """Dataclasses with two or more fields that are callables: bundles of callbacks."""
    aliases = {"Callable"}
    for module in modules:
        for node in module.tree.body:
            match node:
                case ast.AnnAssign(value=ast.expr() as value) | ast.Assign(value=value):
                    if last_name(value) == "Callable":
                        aliases.update(target_names(node))
    found = []
    for module in modules:
        for node in classes_of(module.tree):
            if any(last_name(each) == "dataclass" for each in node.decorator_list):
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
                if sum(is_callable(each.annotation, aliases) for each in fields) >= 2:
                    found.append(f"{module.name}.{node.name}")
    return found


def is_callable(annotation: ast.expr, aliases: set[str]) -> bool:
    """Whether the type is a callable, or a callable or None."""
    if isinstance(annotation, ast.BinOp):
        return is_callable(annotation.left, aliases) or is_callable(annotation.right, aliases)
    return last_name(annotation) in aliases


def comment_lines(text: str) -> int:
    """Lines that hold nothing but a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(
        token.type == tokenize.COMMENT and token.line.lstrip().startswith("#") for token in tokens
    )


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Docstrings, and the strings below attributes and constants."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str()) as string):
                    yield string


def docstring_lines(tree: ast.Module) -> int:
    return sum(map(length, docstrings(tree)))


def import_lines(tree: ast.Module) -> int:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum(map(length, nodes))


def participle_methods(modules: Sequence[Module]) -> list[str]:
    """Methods whose whole name is a participle: is `answered` an event, a fact or a command?"""
    return [
        f"{module.name}.{cls.name}.{method.name}"
        for module in modules
        for cls in classes_of(module.tree)
        for method in cls.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any("property" in last_name(each) for each in method.decorator_list)
        and is_participle(method.name.strip("_"))
    ]


def is_participle(name: str) -> bool:
    if IRREGULAR_PARTICIPLES.fullmatch(name):
        return True
    return bool(re.fullmatch("[a-z]+ed", name)) and not VERBS_IN_ED.fullmatch(name)


def mannered_words(modules: Iterable[Module]) -> Counter[str]:
    prose = " ".join(" ".join(prose_of(module)).lower() for module in modules)
    prose = re.sub(r"\s+", " ", prose)
    return Counter({word: len(re.findall(rf"\b{word}\b", prose)) for word in MANNERED})


def prose_of(module: Module) -> Iterator[str]:
    for string in docstrings(module.tree):
        yield str(string.value)
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def package_rows(codebase: Codebase) -> Iterator[list[str]]:
    """A row for each package."""
    importers = importers_by_module(codebase.modules)
    by_package: dict[str, list[Module]] = defaultdict(list)
    for module in codebase.modules:
        by_package[module.package].append(module)
    for package, modules in sorted(by_package.items()):
        lengths = [module.lines for module in modules]
        lone = sum(len(importers.get(module.name, ())) == 1 for module in modules)
        short = sum(lines < SHORT_MODULE_LINES for lines in lengths)
        figures = (len(modules), sum(lengths), median(lengths), max(lengths), short, lone)
        yield [package, *(f"{figure:,}" for figure in figures)]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rows = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(line).rstrip() for line in lines)


def report(codebases: Sequence[Codebase]) -> str:
    figures = [measure(codebase) for codebase in codebases]
    rows = [[name, *(each[name] for each in figures)] for name in figures[0]]
    parts = [table(["", *(codebase.name for codebase in codebases)], rows)]
    if len(codebases) == 1:
        head = ["package", "modules", "lines", "median", "max", "short", "one importer"]
        parts.append(table(head, package_rows(codebases[0])))
        words = mannered_words(codebases[0].modules)
        parts.append("Mannered words: " + ", ".join(f"{w} {n}" for w, n in words.items() if n))
        parts += named(codebases[0])
    return "\n\n".join(parts)


def named(codebase: Codebase) -> Iterator[str]:
    """What the figures count, where there are few enough to be put right one by one."""
    protocols = implementations(codebase.modules)
    lists: Mapping[str, Callable[[], Iterable[str]]] = {
        "Protocols with one implementation": lambda: (
            name for name, found in protocols.items() if len(found) == 1
        ),
        "Dataclasses of callables": lambda: callable_dataclasses(codebase.modules),
        "Bare participles as methods": lambda: participle_methods(codebase.modules),
    }
    for title, names in lists.items():
        yield "\n  ".join([f"{title}:", *sorted(names())])


def main(arguments: Sequence[str]) -> int:
    folders = [Path(argument) for argument in arguments] or [PACKAGE]
    print(report([read_codebase(folder) for folder in folders]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
