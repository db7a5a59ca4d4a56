"""Makes tasks that write shards fail as a test has planned. Python loads this module by its name when it starts.

Runs in the Python workers of the executors, whose PYTHONPATH the tests set; the product knows nothing of it, nor do drivers but
that of a stream which is to be stopped at a commit.
A test puts its plan beside the output, in ``<output>.faults/plan.json``, or names that directory in $FAULTS if the output is in
another store; tasks without a plan run as they are. What happens is noted there too, one small file for each event, so that the
test can wait for it: ``started``, ``struck``, ``holding``, ``ended`` (the input is at its end) and ``written`` (the receipt is
ready), followed by the partition and the id of the attempt.
"""

import json
import os
import signal
import sys
import time
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

_DEADLINE_SECONDS = 120
_POLL_SECONDS = 0.02


class InjectedFault(Exception):
    """What a test wanted to happen."""


class Strikes:
    """The faults that may hit one attempt."""

    def __init__(self, place, shards, partition, attempt):
        self._place, self._shards = place, shards
        self._partition, self._attempt = partition, attempt
        self._plan = json.loads((place / "plan.json").read_text())
        self._struck = set()
        self._note("started", 0)

    def while_reading(self, batches):
        """Pass batches on; strike once enough of their rows have been taken, and written, by the task."""
        rows = 0
        for batch in batches:
            yield batch
            rows += getattr(batch, "num_rows", 0)  # counts of the tasks before travel among the batches
            self._strike(lambda at, rows=rows: isinstance(at, int) and at <= rows, in_mid_task=True)
        self._note("ended", rows)
        self._strike(lambda at: at == "ended")

    def before_result(self, results):
        """Strike when all shards are closed and the receipt has not yet left."""
        for result in results:
            self._note("written", 0)
            self._strike(lambda at: at == "written")
            yield result

    def around_commit(self, commit):
        """Strike when all tasks of a micro-batch have ended, and when readers see it and Spark has not yet noted that."""
        self._strike(lambda at: at == "committing")
        commit()
        self._strike(lambda at: at == "committed")

    def _strike(self, is_due, in_mid_task=False):
        for number, fault in enumerate(self._plan):
            mine = fault["partition"] in (None, self._partition)
            if mine and number not in self._struck and is_due(fault["at"]):
                self._struck.add(number)
                if self._claim(number, fault["times"]):
                    if in_mid_task and self._shards.is_absolute():
                        self._await_a_closed_shard()
                    self._note("struck", 0)
                    getattr(self, "_do_" + fault["do"])(fault)

    def _claim(self, number, times):
        """One of the times that a fault may happen, over all attempts on all hosts."""
        for time_ in range(times):
            try:
                os.close(os.open(self._place / f"fired-{number}-{time_}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False

    def _await_a_closed_shard(self):
        """Files are written by another thread; a fault in mid-task shall leave one behind, and one that is open."""
        pattern = f"part-{self._partition:05d}-{self._attempt}-*"
        self._await("a closed shard", lambda: any(self._shards.rglob(pattern)))

    def _do_raise(self, fault):
        raise InjectedFault("planned by the test")

    def _do_kill(self, fault):
        os.kill(os.getpid(), signal.SIGKILL)

    def _do_hold(self, fault):
        self._note("holding", 0)
        self._await("the test's release", (self._place / "release").exists)

    def _do_tell(self, fault):
        """Nothing but the note that is there already."""

    def _do_meet(self, fault):
        """Wait until two attempts have come this far, so that both have written everything."""
        pattern = f"written-{self._partition}-*.json"
        self._await("another attempt", lambda: len(list(self._place.glob(pattern))) >= 2)

    def _do_swap(self, fault):
        """Put a sound file in place of a bad one; who has the bad one open goes on reading it."""
        os.replace(Path(fault["file"]).with_name("_sound"), fault["file"])

    def _await(self, what, is_so):
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                raise InjectedFault(f"waited in vain for {what}")
            time.sleep(_POLL_SECONDS)

    def _note(self, event, rows):
        """Appears whole; parents of a worker are the daemon that forked it and the executor."""
        text = json.dumps({"worker": os.getpid(), "executor": _parent(os.getppid()), "rows": rows})
        name = f"{event}-{self._partition}-{self._attempt}.json"
        hidden = self._place / f".{name}.{os.getpid()}"
        hidden.write_text(text)
        hidden.replace(self._place / name)


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _under_fire(plan, directory):
    """The faults of this attempt, or None where a test has planned none."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return _planned(plan, directory, context.partitionId(), context.taskAttemptId())


def _planned(plan, directory, partition, attempt):
    output = Path(plan.storage.url)
    place = Path(os.environ.get("FAULTS") or output.with_name(output.name + ".faults"))
    if not (place / "plan.json").exists():
        return None
    return Strikes(place, output / directory, partition, attempt)


def _patch_sink(module):
    """The task of the nightly job: batches in, one batch with the receipt out."""
    call = module._Task.__call__

    def call_under_fire(task, batches):
        strikes = _under_fire(task.plan, task.plan.directory)
        if strikes is None:
            yield from call(task, batches)
        else:
            yield from strikes.before_result(call(task, strikes.while_reading(batches)))

    module._Task.__call__ = call_under_fire


def _patch_format(module):
    """The task of the format tfrecord: batches in, a receipt out."""
    write = module.write_partition

    def write_under_fire(plan, batches):
        strikes = _under_fire(plan, "")
        if strikes is None:
            return write(plan, batches)
        (receipt,) = strikes.before_result([write(plan, strikes.while_reading(batches))])
        return receipt

    module.write_partition = write_under_fire


def _patch_streams(module):
    """The commit of a micro-batch, which a process beside the driver makes; its notes have the batch for a partition."""
    commit = module.TfrecordStreamWriter.commit

    def commit_under_fire(writer, messages, batch):
        strikes = _planned(writer._plan, "", batch, 0)
        if strikes is None:
            commit(writer, messages, batch)
        else:
            strikes.around_commit(lambda: commit(writer, messages, batch))

    module.TfrecordStreamWriter.commit = commit_under_fire


_PATCHES = {
    "ctr_samples.samples.sink": _patch_sink,
    "ctr_samples.tfrecord.writing": _patch_format,
    "ctr_samples.tfrecord.stream_reading": _patch_streams,
}


class _Patched(SourceFileLoader):
    """Loads a module and wraps what its tasks run."""

    def exec_module(self, module):
        super().exec_module(module)
        _PATCHES[module.__name__](module)


class _Finder:
    """Finds these modules as Python does, with another loader."""

    @staticmethod
    def find_spec(name, path, target=None):
        if name not in _PATCHES:
            return None
        spec = PathFinder.find_spec(name, path)
        spec.loader = _Patched(name, spec.origin)
        return spec


sys.meta_path.insert(0, _Finder)
