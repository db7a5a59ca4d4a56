"""jobs/train_ctr.py in processes of its own, and what their checkpoints hold."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.project import PROJECT

JOB = PROJECT / "jobs/train_ctr.py"
DAY = "2019-06-05"
DEADLINE_S = 240


def start(
    samples: Path, checkpoints: Path, *more: str, module: str | None = None, environ: Mapping[str, str] | None = None
) -> Any:
    """A training on one thread, in a process of its own, by the job or by a module that runs it."""
    program = ["-m", module] if module else [str(JOB)]
    command = [sys.executable, *program, "--samples", str(samples), "--date", DAY, "--threads", "1"]
    return subprocess.Popen(
        [*command, "--checkpoints", str(checkpoints), *more],
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output_of(process: Any) -> str:
    """What a process output, which has to end well."""
    output: str = process.communicate(timeout=DEADLINE_S)[0]
    assert process.returncode == 0, output
    return output


def newest_step(checkpoints: Path) -> int:
    """The number of the newest checkpoint, or 0."""
    try:
        match = re.search(r'^model_checkpoint_path: ".*ckpt-(\d+)"', (checkpoints / "checkpoint").read_text())
    except FileNotFoundError:
        return 0
    return int(match[1]) if match else 0


def kill_after_step(process: Any, checkpoints: Path, step: int) -> None:
    """SIGKILL as soon as a checkpoint of this step or a later one is there."""
    deadline = time.monotonic() + DEADLINE_S
    while newest_step(checkpoints) < step:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"no checkpoint of step {step} in {DEADLINE_S} s"
        time.sleep(0.005)
    end([process])
    assert process.returncode == -9, "it ended before it could be killed"


def end(processes: Sequence[Any]) -> None:
    """Kill all of them that still run."""
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def tensors_of(checkpoints: Path) -> dict[str, Any]:
    """All values of the newest checkpoint, by name."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(checkpoints))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if "OBJECT_GRAPH" not in name and "save_counter" not in name
    }


def assert_close(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Equal but for the order in which numbers were added up."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=2e-4, atol=2e-6, err_msg=name)


def assert_equal_bits(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def two_workers() -> list[dict[str, str]]:
    """The environments of two workers of one training on this machine, on ports that are free."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        places = [f"127.0.0.1:{taken.getsockname()[1]}" for taken in (one, other)]
    return [
        {"TF_CONFIG": json.dumps({"cluster": {"worker": places}, "task": {"type": "worker", "index": n}})}
        for n in range(2)
    ]
