"""Run mutants: ``python -m tests.mutants [COUNT] [PART ...]``. Each runs in a copy of the project, two at a time.

First the quick tests of its part run, those that killed others before; if it survives, the thorough ones, and runs of whole
days. They must pass without a mutant, so run `make test` before.
Results are added to ``build/mutants.csv`` as they come, so a run that was interrupted goes on; remove the file to begin again.
Mutants are drawn by the text of their lines: those of lines that did not change are drawn again.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.core import CORE, Part
from tests.mutants.mutations import Mutant, mutants
from tests.support.project import PROJECT

RESULTS = PROJECT / "build/mutants.csv"
TABLE = PROJECT / "tests/mutants/mutants.csv"
COLUMNS = ("part", "module", "line", "text", "after", "outcome", "seconds")
SURVIVED, HANGS, CRASHES = "survived", "hangs", "crashes"
AT_ONCE = 2
WHOLE_DAYS = "golden"
QUICK, THOROUGH = "not slow and not thorough", "thorough and not slow"
LONGEST = 900
"""Seconds after which a mutant is taken to hang."""

Row = dict[str, str]


def drawn(part: Part, most: int) -> list[tuple[str, Mutant]]:
    """Mutants of a part, in an order that looks random and is the same for the same lines."""

    def rank(one: tuple[str, Mutant]) -> bytes:
        module, mutant = one
        return blake2b(" ".join(mutant.key(module)).encode()).digest()

    every = {
        one.key(module): (module, one)
        for module in part.modules
        for one in mutants((PROJECT / "ctr_samples" / module).read_text())
    }
    return sorted(every.values(), key=rank)[:most]


def copy_of_the_project(place: Path) -> Path:
    """Copy the files that Git knows."""
    shutil.rmtree(place, ignore_errors=True)
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=PROJECT, text=True).split("\0")
    for name in filter(None, names):
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, target)
    return place


def failing(place: Path, marks: str, tests: Sequence[str]) -> str:
    """Run tests in a copy until one fails. Return its name, or that none did."""
    command = [sys.executable, "-m", "pytest", "-x", "-rfE", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", marks]
    running = subprocess.Popen(
        [*command, *tests],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = running.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)  # Spark too
        running.communicate()
        return HANGS
    if running.returncode < 0:  # a kernel that reads or writes beyond its memory
        return CRASHES
    failed = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", said, re.MULTILINE)
    if running.returncode not in (0, 5) and failed is None:
        raise SystemExit(f"The tests could not be run: {said[-2000:]}")
    return failed[1] if failed else SURVIVED


def outcome(place: Path, part: Part, module: str, mutant: Mutant, killers: Sequence[str]) -> str:
    """Try one mutant in a copy."""
    path = place / "ctr_samples" / module
    source, tests = path.read_text(), [f"tests/{test}" for test in part.tests]
    path.write_text(mutant.of(source))
    try:
        found = failing(place, QUICK, [*killers, *tests])
        return failing(place, THOROUGH, [f"tests/{WHOLE_DAYS}", *tests]) if found == SURVIVED else found
    finally:
        path.write_text(source)


def rows_of(path: Path) -> list[Row]:
    """Return the mutants of a table."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def key_of(row: Row) -> tuple[str, str, str]:
    """Return the key of the mutant of a row, which is that of :meth:`Mutant.key`."""
    return row["module"], row["text"], row["after"]


def main(most: int, parts: Sequence[str]) -> None:
    """Run ``most`` mutants of each part."""
    done = set(map(key_of, rows_of(RESULTS)))
    places: SimpleQueue[Path] = SimpleQueue()
    for number in range(AT_ONCE):
        places.put(copy_of_the_project(PROJECT / f"build/mutants-{number}"))
    with RESULTS.open("a", newline="") as file, ThreadPoolExecutor(AT_ONCE) as threads:
        table = csv.DictWriter(file, COLUMNS)
        if not done:
            table.writeheader()
        for name in parts or CORE:
            chosen = [(module, one) for module, one in drawn(CORE[name], most) if one.key(module) not in done]
            for row in results(name, chosen, places, threads):
                table.writerow(row)
                file.flush()
    sys.stdout.writelines(f"{line}\n" for line in summary())


def results(
    name: str, chosen: Sequence[tuple[str, Mutant]], places: SimpleQueue[Path], threads: ThreadPoolExecutor
) -> Iterator[Row]:
    """Yield a row for each mutant of a part."""
    killers = deque[str](maxlen=12)

    def run(one: tuple[str, Mutant]) -> Row:
        module, mutant = one
        place, began = places.get(), time.monotonic()
        try:
            state = outcome(place, CORE[name], module, mutant, list(killers))
        finally:
            places.put(place)
        if "::" in state and WHOLE_DAYS not in state and state not in killers:
            killers.appendleft(state)
        values = (name, module, mutant.line, mutant.text, mutant.after, state, round(time.monotonic() - began))
        return dict(zip(COLUMNS, map(str, values), strict=True))

    for row, number in zip(threads.map(run, chosen), count(1)):
        sys.stderr.write(f"{name} {number} of {len(chosen)}: {row['module']}:{row['line']} {row['outcome']}\n")
        yield row


def summary() -> Iterator[str]:
    """Lines with the mutants of each part, and those that survived, as they do in the table of the project or not."""
    before = {key_of(row): row["outcome"] for row in rows_of(TABLE)}
    rows = rows_of(RESULTS)
    for name in CORE:
        mine = [row for row in rows if row["part"] == name]
        yield f"{name:16} {sum(row['outcome'] != SURVIVED for row in mine):4} of {len(mine):4} killed"
    for row in rows:
        if row["outcome"] == SURVIVED:
            then = before.get(key_of(row), "new")
            yield f"survived ({then}): {row['module']}:{row['line']}: {row['text']} -> {row['after']}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 22, sys.argv[2:])
