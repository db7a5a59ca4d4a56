"""What the documents say is what the product does: the demo's output, the README's program, the configuration reference."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import PROJECT

IMPORTED = r"^ *from (ctr_samples[\w.]*) import (\([^)]*\)|.+)$"
README = (PROJECT / "README.md").read_text()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the demo's commands find what they name, and leave their output."""
    root = tmp_path_factory.mktemp("checkout")
    for name in ("conf", "data", "jobs", "ctr_samples"):
        (root / name).symlink_to(PROJECT / name)
    return root


@pytest.fixture(scope="module")
def demo_output(checkout: Path) -> str:
    """What the demo's two commands print, run as the README shows them."""
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "VIRTUAL_ENV": "active"}
    commands = re.findall(r"^\$ ((?:spark-submit|python) .*)$", README, re.MULTILINE)
    assert len(commands) == 2
    said = ""
    for command in commands:
        done = subprocess.run(
            command,
            shell=True,
            cwd=checkout,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        said += f"$ {command}\n{done.stdout}\n"
    return said.replace(str(checkout), "/home/you/ctr-samples")


def comparable(text: str) -> list[str]:
    """Lines without what changes from run to run: seconds, the last digits of a fit, blank space at the ends, and what is
    compiled once.
    """
    text = re.sub(r"Compiling the code .*\n", "", text)
    text = re.sub(r"\b\d+ s\b", "N s", text)
    text = re.sub(r"\b\d\.\d{3,4}\b", "0.NNN", text)
    return [line.strip() for line in text.splitlines() if line.strip() and set(line.strip()) != {"─"}]


@pytest.mark.slow
def test_the_demo_prints_what_the_readme_shows(demo_output: str) -> None:
    shown = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    expected = [line for line in comparable(shown[1]) if line != "$ . .venv/bin/activate"]
    assert [re.sub(r" +", " ", line) for line in comparable(demo_output)] == [
        re.sub(r" +", " ", line) for line in expected
    ]


@pytest.mark.slow
def test_the_readmes_program_runs_on_the_demos_output(demo_output: str, checkout: Path) -> None:
    program = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert program is not None
    done = subprocess.run([sys.executable, "-c", program[1]], cwd=checkout, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("(256, 80) 0.0")
    assert len(lines) == 5


def said_by(page: str, where: Path) -> str:
    """What the commands and programs of a page print, run one after the other."""
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(PROJECT),
        "SPARK_DRIVER_MEMORY": "1g",
    }
    said = ""
    for language, block in re.findall(r"```(sh|python)\n(.*?)```", page, re.DOTALL):
        command = ["bash", "-e", "-c", block] if language == "sh" else [sys.executable, "-c", block]
        done = subprocess.run(command, cwd=where, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        said += done.stdout + done.stderr
    return said


@pytest.mark.slow
def test_the_tutorial_runs_as_it_is_written(tmp_path: Path) -> None:
    text = (PROJECT / "docs/tutorial.md").read_text()
    said = said_by(text, tmp_path)
    printed = {" ".join(line.split()) for line in said.splitlines()}
    blocks = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    shown = [" ".join(line.split()) for block in blocks[1:] for line in block.splitlines() if line.strip()]
    assert [line for line in shown if line not in printed and "Published log all" not in line] == []
    assert "(256," in said


@pytest.mark.slow
def test_a_feature_is_tried_as_it_is_written(tmp_path: Path) -> None:
    text = (PROJECT / "docs/try-a-feature.md").read_text()
    said = without_numbers(said_by(text, tmp_path))
    for shown in re.findall(r"```text\n(.*?)```", text, re.DOTALL):
        assert without_numbers(shown) in said
    assert "makes features and labels N N" in said


def without_numbers(text: str) -> str:
    """The words of a text, whether its differences are chance or not."""
    words = " ".join(text.split()).replace(", which may be chance", "")
    return re.sub(r"[+-]?\d[\d.,]*\d|\d", "N", words)


@pytest.mark.parametrize("reference", ["configuration", "commands"])
def test_a_reference_is_that_of_the_code(reference: str) -> None:
    tool = [sys.executable, str(PROJECT / f"tools/{reference}_reference.py")]
    printed = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    assert (PROJECT / f"docs/{reference}.md").read_text() == printed, "run `make docs`"


@pytest.mark.parametrize(
    "document", sorted(PROJECT.glob("*.md")) + sorted(PROJECT.glob("docs/*.md")), ids=lambda p: p.name
)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_what_pages_import_from_the_package_is_there() -> None:
    pages = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md"), *(PROJECT / "docs").rglob("*.py")]
    found = [(page, *one) for page in pages for one in re.findall(IMPORTED, page.read_text(), re.MULTILINE)]
    assert len(found) > 50
    for page, module, names in found:
        for name in re.findall(r"\w+(?= as)|\w+(?=\s*[,)\n]|$)", names):
            there = hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
            assert there, f"{page.name}: there is no {name} in {module}"


def test_each_guarantee_names_tests_that_are_there() -> None:
    text = (PROJECT / "docs/guarantees.md").read_text()
    cited = re.findall(r"\]\(\.\./(tests/[\w/]+\.py)#(test_\w+)\)", text)
    assert len(cited) >= 140
    for path, name in cited:
        assert f"def {name}(" in (PROJECT / path).read_text(), f"{path} has no {name}"
    promised = re.split(r"\n## ", text)[1]
    for sentence in re.split(r"\n- ", promised)[1:]:
        assert "](../tests/" in sentence, sentence


def test_the_architecture_names_modules_that_are_there() -> None:
    text = (PROJECT / "docs/architecture.md").read_text()
    paths = [
        path for path in re.findall(r"`([\w/{},.]+(?:\.py|\.schema\.json|/))`", text) if not path.startswith("tests/")
    ]
    assert len(paths) > 40
    expanded = [
        f"{before}{name}{after}"
        for before, names, after in (re.fullmatch(r"([^{]*)(?:\{(.*)\})?(.*)", path).groups() for path in paths)
        for name in (names or "").split(",")
    ]
    places = [PROJECT / "ctr_samples", PROJECT]
    assert [path for path in expanded if not any((place / path).exists() for place in places)] == []


@pytest.mark.parametrize("page", sorted((PROJECT / "docs/recipes/deployment").glob("*.md")), ids=lambda page: page.stem)
def test_a_command_of_a_deployment_makes_what_is_due_and_names_no_day(page: Path) -> None:
    commands = "\n".join(re.findall(r"^    .*$", page.read_text(), re.MULTILINE))
    assert not re.search(r"--date|\d{4}-\d\d-\d\d", commands)
    assert ("generate_samples.py" in commands) == ("--due" in commands)
