"""Training checkpoints. Training resumes from the newest complete checkpoint, and only with equal settings."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ctr_samples.errors import DamagedFile, UsageError

KEPT = 3
SETTINGS = "training.json"


class Checkpoints:
    """Checkpoints in a directory shared by all workers and written by the chief.

    The file ``checkpoint``, which is replaced atomically, names the visible checkpoints. After a crash, the next
    process finds the previous checkpoint.
    """

    def __init__(
        self, directory: str, variables: Sequence[Any], settings: Mapping[str, Any], *, is_chief: bool
    ) -> None:
        self._directory, self._is_chief = directory, is_chief
        self._check(settings)
        self._steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._checkpoint = tf.train.Checkpoint(variables=list(variables), steps=self._steps)
        self._manager = (
            tf.train.CheckpointManager(self._checkpoint, directory, KEPT, step_counter=self._steps)
            if is_chief
            else None
        )

    def restore(self) -> int:
        """Restore the newest checkpoint, if any, and return its step count. Raise DamagedFile if it is unreadable."""
        newest = tf.train.latest_checkpoint(self._directory)
        if newest is None:
            return 0
        try:
            self._checkpoint.restore(newest).assert_consumed()
        except (tf.errors.OpError, AssertionError, IndexError, RuntimeError, ValueError) as error:
            raise DamagedFile(
                f"The checkpoint {newest} cannot be read ({str(error).splitlines()[0]}); remove it and its line in "
                f"{self._directory}/checkpoint to resume from the one before, or use a new directory."
            ) from None
        return int(self._steps.numpy())

    def save(self, steps: int) -> None:
        """Write a checkpoint and keep the newest three. Only the chief writes."""
        if self._manager is not None:
            self._steps.assign(steps)
            try:
                self._manager.save(checkpoint_number=steps)
            except (OSError, tf.errors.OpError) as error:
                raise not_written("checkpoints", self._directory, error) from None

    def _check(self, settings: Mapping[str, Any]) -> None:
        """Reject checkpoints of a different training run, whose weights may match in shape but not in meaning."""
        current = json.loads(json.dumps(settings))
        path = Path(self._directory, SETTINGS)
        try:
            before = json.loads(path.read_text())
        except FileNotFoundError:
            if self._is_chief:
                _write_at_once(path, json.dumps(current, indent=1) + "\n")
            return
        except ValueError as error:
            raise DamagedFile(f"{path} is not JSON ({error}); use a new directory for the checkpoints.") from None
        for name in [*current, *before]:
            if current.get(name) != before.get(name):
                raise UsageError(
                    f"{self._directory} has checkpoints of a training with {name} {before.get(name)!r}, but this one has "
                    f"{current.get(name)!r}; use the same arguments to resume, or a new directory to start over."
                )


def check_place(name: str, directory: str | None) -> None:
    """Raise UsageError, with the option's ``name``, if nothing can be written to a directory. Creates the directory."""
    if directory is None:
        return
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(dir=directory).cleanup()
    except OSError as error:
        raise not_written(name, directory, error) from None


def not_written(name: str, directory: str, error: Exception) -> UsageError:
    """Return the error for a directory to which nothing can be written."""
    said = (error.strerror if isinstance(error, OSError) else None) or str(error).splitlines()[0]
    return UsageError(f"Nothing can be written to {directory} ({said}); choose another `--{name}`.")


def _write_at_once(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).replace(path)
