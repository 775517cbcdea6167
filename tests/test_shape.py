"""Every rule of tools/shape.py refuses what it is there to refuse, and nothing else."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.shape import Project, faults, read_project


def messages(project: Project) -> list[str]:
    return [str(fault) for fault in faults(project)]


def project_of(
    root: Path, texts: Mapping[str, str], unmirrored: Mapping[str, str] | None = None
) -> Project:
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_project(root, unmirrored or {})


def test_a_project_in_good_shape_has_no_faults(tmp_path: Path) -> None:
    project = project_of(
        tmp_path,
        {
            "src/anyport/__init__.py": "",
            "src/anyport/__main__.py": "def run() -> None: ...\n",
            "src/anyport/wire/codec.py": "class Codec:\n    def data_received(self): ...\n",
            "tests/test_main.py": "",
            "tests/wire/test_codec.py": "def test_a_frame_without_data_is_fine(): ...\n",
        },
    )

    assert messages(project) == []


def test_a_long_module_is_a_fault(tmp_path: Path) -> None:
    project = project_of(tmp_path, {"tools/a.py": "x = 1\n" * 400, "tools/b.py": "x = 1\n" * 401})

    assert messages(project) == ["tools/b.py:401: 401 lines; a module has at most 400"]


@pytest.mark.parametrize("start", ["def", "async def"])
def test_a_long_function_is_a_fault(tmp_path: Path, start: str) -> None:
    short = f"{start} short():\n" + "    x = 1\n" * 59
    long = f"{start} long():\n" + "    x = 1\n" * 60

    project = project_of(tmp_path, {"tools/a.py": short + long})

    assert messages(project) == ["tools/a.py:61: long has 61 lines; at most 60 are allowed"]


def test_a_module_without_its_test_file_is_a_fault(tmp_path: Path) -> None:
    project = project_of(tmp_path, {"src/anyport/wire/codec.py": ""})

    assert messages(project) == [
        "src/anyport/wire/codec.py:1: has no tests; tests/wire/test_codec.py is missing"
    ]


@pytest.mark.parametrize("entry", ["wire/codec.py", "wire"])
def test_an_exemption_holds_only_while_it_is_needed(tmp_path: Path, entry: str) -> None:
    module, unmirrored = {"src/anyport/wire/codec.py": ""}, {entry: "tested elsewhere"}

    assert messages(project_of(tmp_path, module, unmirrored)) == []

    tested = module | {"tests/wire/test_codec.py": ""}
    assert messages(project_of(tmp_path, tested, unmirrored)) == [
        f"tools/shape.py:1: UNMIRRORED no longer needs {entry!r}"
    ]


@pytest.mark.parametrize(
    "source", ["class UserManager: ...", "def parse_data(): ...", "class HTTPUtils: ..."]
)
def test_a_name_with_an_empty_word_is_a_fault(tmp_path: Path, source: str) -> None:
    assert len(messages(project_of(tmp_path, {"tools/a.py": source}))) == 1


@pytest.mark.parametrize("path", ["tools/helpers.py", "src/anyport/utils/__init__.py"])
def test_a_module_or_package_named_with_an_empty_word_is_a_fault(tmp_path: Path, path: str) -> None:
    assert len(messages(project_of(tmp_path, {path: ""}))) == 1


def test_words_that_only_contain_a_banned_one_are_allowed(tmp_path: Path) -> None:
    source = "def metadata(): ...\nclass Information: ...\n"

    assert messages(project_of(tmp_path, {"tools/a.py": source})) == []


def test_a_path_on_the_tour_that_does_not_exist_is_a_fault(tmp_path: Path) -> None:
    tour = """
        `tools/call` arrives in `ingress/` and goes to `wire/codec.py` ([source](../tools/a.py)),
        see [the specification](https://example.com/a.md) and `wire/gone.py::decode`
        and [nothing](gone.md#here).
    """
    project = project_of(
        tmp_path,
        {
            "docs/life-of-a-message.md": tour,
            "src/anyport/ingress/__init__.py": "",
            "src/anyport/wire/codec.py": "",
            "tests/wire/test_codec.py": "",
            "tools/a.py": "",
        },
    )

    assert messages(project) == [
        "docs/life-of-a-message.md:3: wire/gone.py does not exist",
        "docs/life-of-a-message.md:4: gone.md does not exist",
    ]


@pytest.mark.parametrize("folder", ["root", "home", "work"])
def test_a_path_of_one_machine_is_a_fault(tmp_path: Path, folder: str) -> None:
    assert len(messages(project_of(tmp_path, {".ci/run": f"cd /{folder}/someone\n"}))) == 1


@pytest.mark.parametrize("host", ["pypi", "files.pythonhosted", "registry.npmjs"])
def test_a_package_registry_is_a_fault(tmp_path: Path, host: str) -> None:
    lock = f"--index-url https://{host}.org/simple\n"

    assert len(messages(project_of(tmp_path, {"requirements/run.txt": lock}))) == 1


def test_addresses_and_relative_paths_are_not_paths_of_a_machine(tmp_path: Path) -> None:
    text = "https://example.com/home/ src/{0}/ ~/{0}/ ./home/\n".format("work")

    assert messages(project_of(tmp_path, {"README.md": text})) == []


def test_environments_caches_and_pictures_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\xff")
    path = "/".join(["", "home", "someone"])

    project = project_of(tmp_path, {".venv/pip.conf": path, "node_modules/a/package.json": path})

    assert messages(project) == []
