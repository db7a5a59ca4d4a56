"""Kills jobs at random moments and looks at what readers find.

    python -m tests.storage.kill_harness --url DIRECTORY_OR_URL --rounds 1000 --seed 1

Each round starts one job, or two that race in every third round, kills the first after a random time, waits for the rest, and
has a fresh process check the store; a reader runs beside the jobs all the time. Prints the counts as one line of JSON; returns
1 if anything was violated. Libraries are loaded once, and every job is a fork, so connections are made only there: those of
this process would not survive it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import select
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta

from ctr_samples.shards.clean import Retention
from tests.storage.layouts import LAYOUTS, Layout
from tests.storage.nightly_job import KEEP_ALL, content
from tests.storage.published_generations import KEPT
from tests.support.forks import Fork, Outcome, fork

FIRST_DAY = date(2019, 6, 5)
ROUNDS_OF_A_DAY = 60
CLEAN_ROUNDS = 5
LATEST = 1.15
"""When a job is killed at the latest, as a share of the usual time: some rounds must get through."""
SHARE_OF_CLEANING_JOBS = 0.3
EXAMPLES = 5


@dataclass(slots=True)
class Counts:
    """What happened.

    ``published`` are generations that readers can see, ``failed`` are jobs that raised something else, and
    ``violations_before`` were found while times were taken and nobody killed.
    """

    rounds: int = 0
    killed: int = 0
    published: int = 0
    conflicts: int = 0
    unknown: int = 0
    failed: int = 0
    cleaning_jobs: int = 0
    violations: int = 0
    violations_before: int = 0
    clean_job_ms: int = 0
    seconds: int = 0
    examples: list[str] = field(default_factory=list)


class Harness:
    """Rounds against one store. A day serves for a number of rounds, or until it is violated."""

    def __init__(self, layout: Layout, url: str, seed: int) -> None:
        self.counts = Counts()
        self._layout = layout
        self._url = url
        self._random = random.Random(seed)
        self._day = FIRST_DAY
        self._claims: list[tuple[int, str]] = []
        self._generations = 0
        self._retention = KEEP_ALL
        content("00000000", 0, "train")  # has the codec's kernels ready before the first fork
        self._usual_s = {jobs: self._median_time(jobs) for jobs in (1, 2)}
        self.counts.clean_job_ms = round(1000 * self._usual_s[1])
        self.counts.violations_before, self.counts.violations = self.counts.violations, 0
        # No job is as slow as thirty usual ones; what is older and in no kept generation may go.
        self._retention = Retention(KEPT, timedelta(seconds=max(10.0, 30 * self._usual_s[1])))

    def run(self, rounds: int) -> Counts:
        """All rounds, and then one job that must get through."""
        started = time.monotonic()
        for number in range(rounds):
            if number % ROUNDS_OF_A_DAY == 0:
                self._next_day()
            self._round(2 if number % 3 == 2 else 1)
        self._note(self._job().outcome())
        self._verify([])
        self.counts.published += self._generations
        self.counts.seconds = round(time.monotonic() - started)
        return self.counts

    def _median_time(self, jobs: int) -> float:
        """Seconds until so many jobs have ended that nobody kills, with a reader beside them."""
        return statistics.median(self._start(jobs, kill_after=None) for _ in range(CLEAN_ROUNDS))

    def _next_day(self) -> None:
        """Another day, with one generation."""
        self.counts.published += self._generations
        self._day += timedelta(days=1)
        self._claims, self._generations = [], 0
        self._note(self._job().outcome())

    def _round(self, jobs: int) -> None:
        self._start(jobs, kill_after=self._random.random() * LATEST * self._usual_s[jobs])
        self.counts.rounds += 1

    def _start(self, number: int, *, kill_after: float | None) -> float:
        """Have a reader and jobs run until they end, the first job by force, then verify. Returns the jobs' seconds."""
        stop_reading, stopped = os.pipe()
        reader = fork(lambda: self._layout.watch(self._url, self._day, lambda: _is_told(stop_reading)))
        started = time.monotonic()
        jobs = [self._job() for _ in range(number)]
        if kill_after is not None:
            time.sleep(kill_after)
            jobs[0].kill()
        for job in jobs:
            self._note(job.outcome())
        seconds = time.monotonic() - started
        os.write(stopped, b".")
        seen = reader.outcome()
        os.close(stop_reading)
        os.close(stopped)
        self._verify(seen.value if seen.error is None else [f"a reader failed with {seen.error}: {seen.message}"])
        return seconds

    def _job(self) -> Fork:
        cleans = self._random.random() < SHARE_OF_CLEANING_JOBS
        self.counts.cleaning_jobs += cleans
        retention = self._retention if cleans else KEEP_ALL
        return fork(lambda: self._layout.job(self._url, self._day, retention))

    def _note(self, job: Outcome) -> None:
        counts = self.counts
        counts.killed += job.killed
        counts.conflicts += job.error == "PublishConflict"
        counts.unknown += job.error == "PublishUnknown"
        if job.error not in (None, "PublishConflict", "PublishUnknown"):
            counts.failed += 1
            self._example(f"a job failed with {job.error}: {job.message}")
        if job.value is not None:
            self._claims.append(tuple(job.value))

    def _verify(self, seen_by_reader: list[str]) -> None:
        """Count a round as violated if a reader saw something wrong, or something is wrong now."""
        found = fork(lambda: asdict(self._layout.look(self._url, self._day, self._claims))).outcome()
        look = found.value or {"generations": 0, "violations": [f"{found.error}: {found.message}"]}
        self._generations = look["generations"]
        violations = seen_by_reader + look["violations"]
        if violations:
            self.counts.violations += 1
            self._example(violations[0])
            self._next_day()  # so that each round is counted for what it did itself

    def _example(self, text: str) -> None:
        if len(self.counts.examples) < EXAMPLES:
            self.counts.examples.append(text[:500])


def _is_told(reading: int) -> bool:
    """Whether something came through a pipe; waits a moment for it, so that readers leave room for jobs."""
    return bool(select.select([reading], [], [], 0.02)[0])


def main(arguments: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--url", required=True, help="an empty directory, or hdfs:// or s3:// with its environment")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layout", choices=LAYOUTS, default="published")
    said = parser.parse_args(arguments)
    scheme = said.url.partition("://")[0]
    for library in {"s3": ["obstore"], "hdfs": ["hdfs_native"]}.get(scheme, []):
        importlib.import_module(library)  # loads it, connects to nothing
    counts = Harness(LAYOUTS[said.layout], said.url, said.seed).run(said.rounds)
    sys.stdout.write(json.dumps({"layout": said.layout, "seed": said.seed, **asdict(counts)}) + "\n")
    return 1 if counts.violations or counts.violations_before or counts.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
