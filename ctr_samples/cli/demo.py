"""``ctr-samples demo`` and ``ctr-samples where``: run a demo, and locate the files shipped with the package."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ctr_samples.cli.generate import generate
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.terminal import say
from ctr_samples.cli.train import train
from ctr_samples.errors import UsageError

_DAY = "2019-11-26"
_FILES = ("conf/open_bandit.yaml", "data/open_bandit")


def demo(
    directory: Annotated[Path, typer.Argument(help="A new directory for the data, the samples and the report.")] = Path(
        "ctr-samples-demo"
    ),
    debug: Debug = False,
) -> None:
    """Make samples of a day of real logs and, with TensorFlow, train a model on them.

    Takes about a minute; the first run on a host also compiles the codec, which takes half a minute.
    """
    with errors_in_words(debug) as console:
        if directory.exists() and any(directory.iterdir()) and not (directory / _FILES[0]).exists():
            raise UsageError(f"{directory} holds other files; name a new directory: `ctr-samples demo DIRECTORY`.")
        for name in _FILES:
            _copy(shipped(name), directory / name)
        os.chdir(directory)  # the configuration's paths are relative
        config, samples = _FILES[0], "build/samples/open_bandit"
        console.print(f"$ cd {directory}\n$ ctr-samples generate --config {config} --date {_DAY}", soft_wrap=True)
    generate(Path(config), date=_DAY, debug=debug)
    command = f"ctr-samples train --samples {samples} --date {_DAY} --epochs 20"
    if find_spec("tensorflow") is None:
        console.print(f"\nTo train a model on these samples, install TensorFlow and run\n  {command}", soft_wrap=True)
        return
    console.print(f"\n$ {command}", soft_wrap=True)
    train(samples, date=_DAY, epochs=20, debug=debug)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


def where(
    name: Annotated[str | None, typer.Argument(help="As in jobs/generate_samples.py; without, all are listed.")] = None,
    debug: Debug = False,
) -> None:
    """Print the path of a file that comes with ctr-samples: a job for spark-submit, a configuration, or data."""
    with errors_in_words(debug):
        for line in shipped_files() if name is None else [shipped(name)]:
            say(line)


_DIRECTORIES = ("conf", "data", "jobs")


def shipped(name: str) -> Path:
    """Return the path of a shipped file or directory: ``conf/toutiao.yaml``. Raise UsageError for any other name."""
    path = _root() / name
    if name.split("/", maxsplit=1)[0] not in _DIRECTORIES or ".." in path.parts or not path.exists():
        raise UsageError(f"{name!r} does not come with ctr-samples; `ctr-samples where` lists what does.")
    return path


def shipped_files() -> list[str]:
    """Return the sorted names of all files shipped with the package."""
    root = _root()
    files = [file for name in _DIRECTORIES for file in (root / name).rglob("*") if file.is_file()]
    return sorted(str(file.relative_to(root)) for file in files if "__pycache__" not in file.parts)


def _root() -> Path:
    package = Path(__file__).parent.parent
    return package if (package / "conf").is_dir() else package.parent
