"""Prepare executors: load what tasks need, and check that they, perhaps as another user, can write to the run's directories."""

from __future__ import annotations

import getpass
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from ctr_samples.codec.kernels.compilation import Decoders, Kernels
from ctr_samples.codec.machine_code import kept_code, kernels
from ctr_samples.errors import AccessDenied, ConfigError, CtrSamplesError, StorageError
from ctr_samples.shards import Storage

Places = Mapping[str, tuple[Storage, str]]
"""Storage and a directory in it, by configuration key."""

_MOST = 1000
"""Maximum number of tasks. A larger cluster is checked only in part."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of writing a small file to one directory. ``who`` names the executor's user and host."""

    key: str
    path: str
    who: str
    error: StorageError | None = None


def import_modules() -> None:
    """Import what the tasks of a run need. Runs on executors, and in the process that forks their workers."""
    import ctr_samples.samples.builder
    import ctr_samples.samples.sink  # noqa: F401


def load_modules() -> None:
    """Import what the tasks of a run need, and load the kernels, compiling them if necessary. Runs on executors."""
    import_modules()
    kernels()


def compile_in_background() -> subprocess.Popen[bytes] | None:
    """Start a process that compiles the kernels of this host, unless they are there. Those that write come first, since
    tasks may wait for them soon. Those that read may still be compiled when this process ends, for the next one.

    A failure is left to whoever needs the kernels, and compiles them then.
    """
    command, no = [sys.executable, "-P", "-m", "ctr_samples.codec"], subprocess.DEVNULL
    with suppress(OSError, CtrSamplesError):
        if any(kept_code(kind) is None for kind in (Kernels, Decoders)):
            return subprocess.Popen(command, stdin=no, stdout=no, stderr=no)
    return None


def check_executors(spark: SparkSession, places: Places) -> None:
    """Have each executor write a small file to each directory, then find and remove the files. Runs on the driver.

    Runs one small Spark job. Raises ConfigError if executors may not write, or if the driver cannot see their files,
    and StorageError if the storage fails. Does nothing in local mode, where the driver is the only executor.
    """
    context = spark.sparkContext
    master = context.master or "local"
    if master == "local" or master.startswith("local["):
        return
    tasks = min(context.defaultParallelism, _MOST)
    trials = context.parallelize(range(tasks), tasks).mapPartitions(partial(tried, places)).collect()
    judge(places, trials)


def tried(places: Places, _: Iterable[int] = ()) -> Iterator[Trial]:
    """Write a file to each directory and yield the results. Runs on an executor, in each task."""
    who = f"the user {_user()} on {socket.gethostname()}"
    for key, (storage, directory) in places.items():
        path = f"{directory}/probe-{uuid.uuid4().hex}".lstrip("/")
        try:
            with storage.new_file(path) as file:
                file.write(b"written by an executor")
        except StorageError as error:
            yield Trial(key, path, who, error)
        else:
            yield Trial(key, path, who)


def judge(places: Places, trials: Iterable[Trial]) -> None:
    """Remove the files and raise the first error, if any. Runs on the driver."""
    wrong = [error for trial in trials if (error := _wrong(places[trial.key][0], trial))]
    if wrong:
        raise wrong[0]


def _wrong(storage: Storage, trial: Trial) -> ConfigError | StorageError | None:
    if isinstance(trial.error, AccessDenied):
        return ConfigError(
            f"Executors run as {trial.who}, the driver as {_user()}, and only one of them may write: {trial.error} "
            f"Run both as one user, or open {storage.url} for a group that both are in, as in `chgrp GROUP` and `chmod 2775`, "
            "the directories in it too."
        )
    if trial.error is not None:
        return StorageError(f"Executors run as {trial.who}. {trial.error}")
    try:
        storage.size(trial.path)
    except FileNotFoundError:
        return ConfigError(
            f"`{trial.key}` is no directory that all hosts share: {trial.who} has written {storage.locate(trial.path)}, but "
            "the driver does not find it. Give a directory on a shared disk, or one in HDFS or an object store."
        )
    with suppress(StorageError):  # only clean-up needs permission to delete
        storage.delete(trial.path)
    return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user id has no name
        return "of no name"
