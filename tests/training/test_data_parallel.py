"""Several replicas train the model that one would train: on one machine, and on two workers that meet over the network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.training.training_runs import (
    assert_close,
    assert_equal_bits,
    end,
    kill_after_step,
    newest_step,
    output_of,
    start,
    tensors_of,
    two_workers,
)

pytestmark = pytest.mark.slow

TWO_DEVICES = "tests.training.two_devices"
WORKER = "tests.training.watched_worker"
# All 400 samples are one batch, so that its halves have the same samples however they are shared out.
OPTIONS = ("--model", "deepfm", "--epochs", "30", "--batch-size", "400", "--checkpoint-every", "30")


@pytest.fixture(scope="module")
def alone(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a training on one device."""
    root = tmp_path_factory.mktemp("alone")
    output_of(start(samples, root, *OPTIONS))
    return root


def train_as_two_workers(samples: Path, checkpoints: Path, weights: Sequence[Path], *options: str) -> list[str]:
    """What both say; each puts the weights that it ends with into a file of its own."""
    started = [
        start(samples, checkpoints, *options, module=WORKER, environ={**environ, "WEIGHTS": str(file)})
        for file, environ in zip(weights, two_workers(), strict=True)
    ]
    try:
        return [output_of(process) for process in started]
    finally:
        end(started)


def replicas_of(checkpoints: Path) -> int:
    return int(json.loads((checkpoints / "training.json").read_text())["replicas"])


def test_two_devices_of_one_machine_train_what_one_would(samples: Path, alone: Path, tmp_path: Path) -> None:
    assert "Trained a DeepFM model" in output_of(start(samples, tmp_path, *OPTIONS, module=TWO_DEVICES))
    assert (replicas_of(alone), replicas_of(tmp_path)) == (1, 2)
    assert newest_step(tmp_path) == newest_step(alone) == 30
    assert_close(tensors_of(alone), tensors_of(tmp_path))


def test_two_workers_train_what_one_would_end_with_equal_weights_and_the_first_alone_writes(
    samples: Path, alone: Path, tmp_path: Path
) -> None:
    files, export = [tmp_path / "first.npz", tmp_path / "second.npz"], tmp_path / "export"
    first, second = train_as_two_workers(samples, tmp_path / "shared", files, *OPTIONS, "--export", str(export))
    assert "Trained a DeepFM model" in first
    assert "Trained" not in second
    assert [path.name for path in export.iterdir()] == ["1"]
    assert replicas_of(tmp_path / "shared") == 2
    assert_equal_bits(*map(np.load, files))
    assert_close(tensors_of(alone), tensors_of(tmp_path / "shared"))


def test_two_workers_that_were_killed_go_on_together(samples: Path, tmp_path: Path) -> None:
    options = ("--model", "wide_deep", "--epochs", "50", "--batch-size", "64", "--checkpoint-every", "10")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    files = [tmp_path / "first.npz", tmp_path / "second.npz"]
    train_as_two_workers(samples, whole, files, *options)
    assert_equal_bits(*map(np.load, files))
    started = [start(samples, killed, *options, environ=environ) for environ in two_workers()]
    try:
        kill_after_step(started[1], killed, 20)
    finally:
        end(started)
    train_as_two_workers(samples, killed, files, *options)
    assert newest_step(killed) == newest_step(whole) == 50 * 6
    assert_equal_bits(tensors_of(whole), tensors_of(killed))
