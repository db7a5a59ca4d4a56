"""Figures of benchmarks: measured in turns, held against goals, printed as one table, kept as JSON, compared with earlier ones.

A figure is the median of its rounds. A loop that always does the same work, on all cores, is timed before and after each
benchmark: where its time moved by more than a tenth, something else was running, and the figures are to be taken again.

``python -m tests.support.figures BEFORE AFTER`` compares two JSON files.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np

from ctr_samples.typed import typed
from tests.support.project import PROJECT

SETTINGS = "CTR_SAMPLES_BENCH_"
QUICK = bool(os.environ.get(f"{SETTINGS}QUICK"))
NOISY = 0.1
"""A machine that moved by more is not quiet. Two runs of the same code differ by nearly as much on one that is."""
SHORTEST_S = 0.1
LIBRARIES = "pyspark pyarrow numpy numba isal tensorflow protobuf tfx-bsl".split()


def size(name: str, usual: int, quick: int) -> int:
    """A number of rows or rounds: ``CTR_SAMPLES_BENCH_<name>`` of the environment, else by whether the run is a quick one."""
    return int(os.environ.get(SETTINGS + name) or (quick if QUICK else usual))


def in_turns(
    ways: dict[str, Callable[[], object]], rounds: int, before: Callable[[], object] = lambda: None
) -> dict[str, np.ndarray]:
    """Seconds of one call of each way, in each round, as arrays of shape (rounds,).

    The ways take turns, so that whatever else the machine does meets all of them; the first turn warms up and does not count.
    A quick way is called for a tenth of a second in each round, and the mean counts. ``before`` precedes each call, untimed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            taken = _seconds(way, before)
            if turn:
                seconds[name].append(taken)
    return {name: np.array(some) for name, some in seconds.items()}


def _seconds(way: Callable[[], object], before: Callable[[], object]) -> float:
    total, calls = 0.0, 0
    while total < SHORTEST_S:
        before()
        began = time.perf_counter()
        way()
        total += time.perf_counter() - began
        calls += 1
    return total / calls


def calibrate() -> float:
    """Seconds in which every core sorts the same 4 million numbers, at the same time; the median of nine such rounds."""
    cores = os.cpu_count() or 1
    numbers = np.random.default_rng(0).random(1 << 22)
    places = [np.empty_like(numbers) for _ in range(cores)]  # memory that is new would be measured too

    def sort(place: np.ndarray) -> None:
        place[:] = numbers
        place.sort()

    with ThreadPoolExecutor(cores) as threads:
        (taken,) = in_turns({"sort": lambda: list(threads.map(sort, places))}, 9).values()
    return float(np.median(taken))


def moved(seconds: Iterable[float]) -> float:
    """By what share the largest is above the smallest: 0.1 is a tenth."""
    some = list(seconds)
    return max(some) / min(some) - 1


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit in the unit of its figure, and on which side of it the figure should be."""

    side: Literal["at least", "at most"]
    limit: float

    def met(self, value: float) -> bool:
        """Whether the value is on that side; the limit itself is."""
        return value >= self.limit if self.side == "at least" else value <= self.limit


def at_least(limit: float) -> Goal:
    """More is better."""
    return Goal("at least", limit)


def at_most(limit: float) -> Goal:
    """Less is better."""
    return Goal("at most", limit)


@dataclass(frozen=True, slots=True)
class Figure:
    """What one benchmark measured in each round, and the calibrations before and after it, in seconds."""

    benchmark: str
    name: str
    unit: str
    rounds: tuple[float, ...]
    goal: Goal | None
    calibrations: tuple[float, ...]

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    @property
    def spread(self) -> float:
        """From the smallest round to the largest, as a share of the median."""
        return (max(self.rounds) - min(self.rounds)) / self.value

    @property
    def noise(self) -> float:
        """By what share the calibration moved."""
        return moved(self.calibrations)

    @property
    def verdict(self) -> str:
        """``met`` or ``missed``; nothing without a goal."""
        return "" if self.goal is None else "met" if self.goal.met(self.value) else "missed"


class Figures:
    """Collects the figures of one benchmark, which is calibrated before it and after it."""

    def __init__(self, benchmark: str) -> None:
        self._benchmark = benchmark
        self._added: list[tuple[str, str, tuple[float, ...], Goal | None]] = []
        self._before = calibrate()

    def add(self, name: str, rounds: Iterable[float], unit: str, goal: Goal | None = None) -> None:
        """Add a figure, with its value in each round, all above zero; ``name`` is the only one of this benchmark.

        To be called when the results were found right, since what is wrong has no speed.
        """
        values = tuple(float(value) for value in rounds)
        assert min(values) > 0, name
        self._added.append((name, unit, values, goal))

    def calibrated(self) -> list[Figure]:
        """All that were added, with the calibrations."""
        if not self._added:
            return []
        calibrations = (self._before, calibrate())
        return [Figure(self._benchmark, *added, calibrations) for added in self._added]


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one run, and where they come from. ``settings`` are the variables of the environment that gave sizes."""

    time: str
    commit: str
    machine: str
    versions: dict[str, str]
    settings: dict[str, str]
    figures: tuple[Figure, ...]

    @property
    def title(self) -> str:
        """The machine, the commit, the time and the settings, in a line."""
        settings = "".join(f", {name.removeprefix(SETTINGS)}={value}" for name, value in self.settings.items())
        return f"{self.machine}; commit {self.commit}, {self.time}{settings}"


def this_run(figures: Iterable[Figure]) -> Run:
    """A run that just ended on this machine, of what is checked out."""
    installed = {library: _version(library) for library in LIBRARIES}
    return Run(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=_commit(),
        machine=f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        versions={"python": platform.python_version(), **{k: v for k, v in installed.items() if v}},
        settings={name: value for name, value in sorted(os.environ.items()) if name.startswith(SETTINGS) and value},
        figures=tuple(figures),
    )


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return ""


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def write(run: Run, file: Path) -> None:
    """Write a run as JSON; ``read`` reads it back."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(run), indent=1) + "\n")


def read(file: Path) -> Run:
    """A run that ``write`` wrote; raises OSError, or ValueError for a file that has something else."""
    try:
        return typed(Run, json.loads(file.read_text()))
    except ValueError as error:
        raise ValueError(f"{file} has no figures of benchmarks: {error}") from error


def table(run: Run) -> str:
    """The figures of a run, one in a line, under the names of their benchmarks."""
    rows = []
    for figure in run.figures:
        goal = f"{figure.goal.side} {figure.goal.limit:g} {figure.unit}" if figure.goal else ""
        spread = f"{figure.spread:.0%}" if len(figure.rounds) > 1 else "one round"
        noise = f"{figure.noise:.0%}" + ("  noisy: repeat" if figure.noise > NOISY else "")
        rows.append((figure.benchmark, figure.name, goal, _text(figure), figure.verdict, spread, noise))
    quick = (
        "\nquick: small data, so these figures say nothing about goals" if f"{SETTINGS}QUICK" in run.settings else ""
    )
    heads = ("benchmark", "goal", "figure", "verdict", "spread", "noise")
    return "\n".join([run.title + quick, "", *_aligned(heads, rows)])


def comparison(before: Run, after: Run) -> str:
    """Each figure of both runs, by what factor it changed, and whether that is more than noise.

    Noise is the most of: the spread of either run, how far the calibrations of both are apart, and a tenth. Raises ValueError
    if the runs had different settings.
    """
    if before.settings != after.settings:
        raise ValueError(f"the runs had different settings: {before.settings} before, {after.settings} after")
    earlier = {(figure.benchmark, figure.name): figure for figure in before.figures}
    rows = []
    for now in after.figures:
        then = earlier.pop((now.benchmark, now.name), None)
        if then is None:
            rows.append((now.benchmark, now.name, "", _text(now), "", "", "only after"))
            continue
        ratio = now.value / then.value
        noise = max(NOISY, then.spread, now.spread, moved([*then.calibrations, *now.calibrations]))
        verdict = "moved" if max(ratio, 1 / ratio) - 1 > noise else ""
        rows.append((now.benchmark, now.name, _text(then), _text(now), f"{ratio:.2f}x", f"{noise:.0%}", verdict))
    rows += [(then.benchmark, then.name, _text(then), "", "", "", "only before") for then in earlier.values()]
    heads = ("benchmark", "before", "after", "ratio", "noise", "verdict")
    return "\n".join([f"before: {before.title}", f"after:  {after.title}", "", *_aligned(heads, rows)])


def _text(figure: Figure) -> str:
    """The value with three digits that count, and its unit."""
    digits = max(0, 2 - math.floor(math.log10(figure.value)))
    return f"{figure.value:,.{digits}f} {figure.unit}"


def _aligned(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of columns that are as wide as their widest cell. The first cell of a row is its benchmark, a line of its own."""
    cells = [heads, *[("  " + name, *rest) for _, name, *rest in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    result, last = lines[:1], ""
    for (benchmark, *_), line in zip(rows, lines[1:], strict=True):
        result += [line] if benchmark == last else [benchmark, line]
        last = benchmark
    return result


def main(before: str, after: str) -> str:
    """The comparison of two files; ends the program with a sentence if they cannot be compared."""
    try:
        return comparison(read(Path(before)), read(Path(after)))
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    print(main(*sys.argv[1:3]))  # noqa: T201
