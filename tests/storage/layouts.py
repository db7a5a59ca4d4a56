"""What the kill harness kills and looks at: the product's ways, without and with state, and three that must be seen to fail."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

from ctr_samples.shards import open_storage
from ctr_samples.shards.clean import Retention
from ctr_samples.shards.storage import LocalStorage
from tests.storage.nightly_job import BATCHES, KEEP_ALL, PARTITIONS, content, run
from tests.storage.nightly_state import clean, look_at_state, use, watch_state
from tests.storage.published_generations import Claim, Look, look_at_day, watch

_PIECE_OF_MANIFEST, _PIECE_OF_DATA = 64, 4096
"""Each is written and synced, as on a slow share; a manifest takes about as long as the shards that it lists."""


class Layout(Protocol):
    """How a job puts samples into a store, and what must be true of the store at any time."""

    def job(self, url: str, day: date, retention: Retention) -> Claim | None:
        """Run one job to its end and return what it believes to have published. Runs in a process of its own."""

    def watch(self, url: str, day: date, stopped: Callable[[], bool]) -> list[str]:
        """Read again and again beside the jobs; what a reader must never see, in words."""

    def look(self, url: str, day: date, claims: list[Claim]) -> Look:
        """Look once, when no job runs."""


@dataclass(frozen=True, slots=True)
class Published:
    """The product."""

    def job(self, url: str, day: date, retention: Retention) -> Claim:
        manifest = run(open_storage(url), day, retention)
        return manifest.generation, manifest.run_id

    def watch(self, url: str, day: date, stopped: Callable[[], bool]) -> list[str]:
        return watch(open_storage(url), day, stopped)

    def look(self, url: str, day: date, claims: list[Claim]) -> Look:
        return look_at_day(open_storage(url), day, claims)


@dataclass(frozen=True, slots=True)
class WithState(Published):
    """The product, with partial results of the days before."""

    put_first: bool = False
    """Control: a partial is there before its files are."""

    def job(self, url: str, day: date, retention: Retention) -> Claim:
        storage, state = open_storage(url), open_storage(f"{url}-state")
        use(storage, state, day, put_first=self.put_first)
        manifest = run(storage, day, retention)
        if retention is not KEEP_ALL:
            clean(state, day)
        return manifest.generation, manifest.run_id

    def watch(self, url: str, day: date, stopped: Callable[[], bool]) -> list[str]:
        return watch_state(open_storage(url), open_storage(f"{url}-state"), day, stopped)

    def look(self, url: str, day: date, claims: list[Claim]) -> Look:
        storage = open_storage(url)
        look, wrong = look_at_day(storage, day, claims), look_at_state(storage, open_storage(f"{url}-state"), day)
        return Look(look.generations, [*look.violations, *wrong])


class InPlace(Published):
    """Control: as the product, but a manifest is written piece by piece under its own name, over what is there."""

    def job(self, url: str, day: date, retention: Retention) -> Claim:
        manifest = run(InPlaceStorage(url), day, retention)
        return manifest.generation, manifest.run_id

    def watch(self, url: str, day: date, stopped: Callable[[], bool]) -> list[str]:
        return []  # its readers see half a manifest also without a kill; here it is about what stays


class InPlaceStorage(LocalStorage):
    """A directory whose ``put_new`` keeps its promises only while it is tried out, before a run."""

    def put_new(self, path: str, data: bytes) -> None:
        if path.endswith("/probe"):
            super().put_new(path, data)
            return
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with _in_pieces(place, _PIECE_OF_MANIFEST) as write:
            write(data)


class Overwrite:
    """Control: clear the day's directory, write files of fixed names in place, then ``_SUCCESS``, as a plain overwrite does.

    Its readers list the directory once ``_SUCCESS`` is there. A day that was published once must stay readable.
    """

    RUN = "00000000"

    def job(self, url: str, day: date, retention: Retention) -> None:
        directory = Path(url, day.isoformat())
        directory.mkdir(parents=True, exist_ok=True)
        for old in sorted(directory.iterdir()):
            old.unlink(missing_ok=True)
        for name, data in self._files():
            with _in_pieces(directory / name, _PIECE_OF_DATA) as write:
                write(data)
        (directory / "_SUCCESS").touch()

    def watch(self, url: str, day: date, stopped: Callable[[], bool]) -> list[str]:
        return []  # its readers find nothing for a while also without a kill

    def look(self, url: str, day: date, claims: list[Claim]) -> Look:
        directory = Path(url, day.isoformat())
        if not (directory / "_SUCCESS").exists():
            return Look(0, [f"{directory} was published and has no _SUCCESS"])
        found = {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "_SUCCESS"}
        whole = found == dict(self._files())
        return Look(1, [] if whole else [f"{directory} has _SUCCESS and other bytes than were written"])

    def _files(self) -> Iterator[tuple[str, bytes]]:
        for partition in range(PARTITIONS):
            for split in BATCHES:
                yield f"part-{partition:05d}-{split}.tfrecord", content(self.RUN, partition, split)


LAYOUTS: dict[str, Layout] = {
    "published": Published(),
    "with-state": WithState(),
    "in-place": InPlace(),
    "overwrite": Overwrite(),
    "state-put-first": WithState(put_first=True),
}


@contextmanager
def _in_pieces(place: Path, size: int) -> Iterator[Callable[[bytes], None]]:
    """Gives a function that writes to ``place``; each piece is on disk before the next."""
    with place.open("wb", buffering=0) as file:

        def write(data: bytes) -> None:
            for first in range(0, len(data), size):
                file.write(data[first : first + size])
                os.fsync(file.fileno())

        yield write
