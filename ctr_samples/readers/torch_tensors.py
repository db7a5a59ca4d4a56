"""Columns as torch tensors over the same memory. torch is not a dependency, and is imported on demand."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from ctr_samples.errors import UsageError
from ctr_samples.readers.arrays import Ragged, Sparse


def import_torch() -> Any:
    """Import torch. Raises UsageError if it is not installed."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError("`as_='torch'` needs torch, which is not installed: pip install torch.") from None


def as_torch(column: Any) -> Any:
    """Convert arrays to tensors, also inside lists and sparse rows; texts stay, since torch has no such type."""
    if isinstance(column, Ragged):
        return Ragged(as_torch(column.values), import_torch().from_numpy(column.row_splits))
    if isinstance(column, Sparse):
        return replace(column, indices=as_torch(column.indices), values=as_torch(column.values))
    return column if column.dtype == object else import_torch().from_numpy(column)
