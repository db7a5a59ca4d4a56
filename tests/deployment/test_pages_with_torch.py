"""What needs torch or Grain runs in an environment that has these: the pages of docs/recipes as they stand, and tests."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.pages import WITH_OTHER_PACKAGES
from tests.support.project import PROJECT

PACKAGES = ("torch==2.14.1", "torchdata==0.11.0", "grain==0.2.18")
FOR_TORCHREC = ("fbgemm-gpu-cpu==1.9.0", "tensordict==0.15.3", "torchmetrics==1.0.3", "pyre-extensions", "tqdm")
"""What TorchRec asks for, but FBGEMM's build for CPUs; it was built for torch 2.14."""


@pytest.fixture(scope="session")
def python() -> Path:
    """The Python of an environment with these packages and what the project's own has. It is kept: it takes 5 GB."""
    place = PROJECT / "build/torch"
    python, ready = place / "bin/python", place / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        (packages,) = place.glob("lib/*/site-packages")
        (packages / "project.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        subprocess.run([*pip, *PACKAGES, *FOR_TORCHREC], check=True)
        subprocess.run([*pip, "--no-deps", "torchrec==1.9.2"], check=True)
        ready.touch()
    return python


@pytest.mark.parametrize("page", WITH_OTHER_PACKAGES)
def test_a_page_runs_as_it_stands(page: str, python: Path, tmp_path: Path) -> None:
    run(python, tmp_path, "-m", "tests.deployment.run_page", str(PROJECT / f"docs/recipes/{page}.md"))


def test_batches_are_torch_tensors(python: Path, tmp_path: Path) -> None:
    tests = str(PROJECT / "tests/readers/test_torch.py")
    said = run(python, tmp_path, "-m", "pytest", "--numprocesses", "0", "--rootdir", str(PROJECT), tests)
    assert "passed" in said
    assert "skipped" not in said


def run(python: Path, place: Path, *program: str) -> str:
    """What a program of that environment says, which has to end well."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "PYSPARK"))}
    own["PYTHONPATH"] = str(PROJECT)
    done = subprocess.run([str(python), *program], env=own, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout
