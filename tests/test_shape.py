"""Every rule of tools/shape.py refuses what it is there to refuse, and nothing else."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.shape import Project, faults, read_project


def messages(project: Project) -> list[str]:
    return [str(fault) for fault in faults(project)]


def project_of(root: Path, texts: Mapping[str, str]) -> Project:
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_project(root)


def test_a_project_in_good_shape_has_no_faults(tmp_path: Path) -> None:
    project = project_of(
        tmp_path,
        {
            "src/anyport/__init__.py": "",
            "src/anyport/__main__.py": "def run() -> None: ...\n\nrun()\n",
            "src/anyport/wire/jsonrpc.py": "class Codec: ...\n\nCodec()\n",
            "tests/wire/test_jsonrpc.py": "def test_a_frame_without_data_is_fine(): ...\n",
        },
    )

    assert messages(project) == []


def test_a_class_name_of_two_modules_is_a_fault(tmp_path: Path) -> None:
    files = {f"src/anyport/{name}.py": "class Session: ...\n\nSession()\n" for name in "ab"}

    assert messages(project_of(tmp_path, files)) == [
        "src/anyport/b.py:1: Session is also a class of src/anyport/a.py"
    ]


def test_a_public_name_that_only_tests_use_is_a_fault(tmp_path: Path) -> None:
    source = """
class Metrics:
    def connection_closed(self): ...
    def data_received(self): ...
    def _private(self): ...

@command("serve")
def serve(): ...

LIMIT: Final = 3
Metrics()
"""
    use = "Metrics().connection_closed(LIMIT)\n"

    project = project_of(tmp_path, {"src/anyport/a.py": source, "tests/test_a.py": use})

    assert messages(project) == [
        "src/anyport/a.py:3: connection_closed is used by nothing in src/anyport/",
        "src/anyport/a.py:10: LIMIT is used by nothing in src/anyport/",
    ]


def test_a_path_on_the_tour_that_does_not_exist_is_a_fault(tmp_path: Path) -> None:
    tour = """
        `tools/call` arrives in `ingress/`, goes to `wire/jsonrpc.py` ([source](../../tools/a.py)),
        see [the specification](https://example.com/a.md) and `wire/gone.py::decode`
        and [nothing](gone.md#here).
    """
    project = project_of(
        tmp_path,
        {
            "docs/contributing/life-of-a-message.md": tour,
            "src/anyport/ingress/__init__.py": "",
            "src/anyport/wire/jsonrpc.py": "",
            "tools/a.py": "",
        },
    )

    assert messages(project) == [
        "docs/contributing/life-of-a-message.md:3: wire/gone.py does not exist",
        "docs/contributing/life-of-a-message.md:4: gone.md does not exist",
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
