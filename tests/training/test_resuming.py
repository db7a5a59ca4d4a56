"""A training that is killed goes on from its newest checkpoint, to the very bits of one that ran through."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.training_runs import assert_equal_bits, kill_after_step, newest_step, output_of, start, tensors_of

pytestmark = pytest.mark.slow

EPOCHS, STEPS_OF_EPOCH = 60, 13  # 400 samples in batches of 32
OPTIONS = ("--model", "deepfm", "--epochs", str(EPOCHS), "--batch-size", "32", "--checkpoint-every", "5")


def test_a_training_that_is_killed_twice_comes_to_the_same_bits(samples: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    output_of(start(samples, whole, *OPTIONS))
    kill_after_step(start(samples, killed, *OPTIONS), killed, 20)  # in the middle of an epoch: 20 is no multiple of 13
    first = newest_step(killed)
    kill_after_step(start(samples, killed, *OPTIONS), killed, first + 50)
    assert first + 50 <= newest_step(killed) < EPOCHS * STEPS_OF_EPOCH
    output_of(start(samples, killed, *OPTIONS))
    assert newest_step(killed) == newest_step(whole) == EPOCHS * STEPS_OF_EPOCH
    assert_equal_bits(tensors_of(whole), tensors_of(killed))
