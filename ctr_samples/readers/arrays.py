"""Column types of a batch besides plain arrays: variable-length lists and sparse rows. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Ragged:
    """Variable-length lists: row i is ``values[row_splits[i]:row_splits[i + 1]]``.

    ``row_splits`` is int64[rows + 1] and starts with 0. ``values`` is an array whose first axis runs over the values of
    all rows, or another Ragged for lists of lists. Pass ``values`` and ``row_splits[:-1]`` to an embedding bag.
    """

    values: Any
    row_splits: Any

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def rows(self, first: int, stop: int) -> Ragged:
        """Slice rows ``first`` to ``stop`` without copying values."""
        splits = self.row_splits[first : stop + 1]
        return Ragged(rows_of(self.values, int(splits[0]), int(splits[-1])), splits - splits[0])

    def pin_memory(self) -> Ragged:
        """Return the lists in page-locked memory, if they are torch tensors. A torch DataLoader with ``pin_memory=True``
        calls this.
        """
        return Ragged(_pinned(self.values), _pinned(self.row_splits))

    def to_list(self) -> list[Any]:
        """Convert to Python lists, for tests and inspection."""
        values = self.values.to_list() if isinstance(self.values, Ragged) else self.values.tolist()
        return [values[a:b] for a, b in zip(self.row_splits[:-1].tolist(), self.row_splits[1:].tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class Sparse:
    """Sparse rows of ``size`` numbers: row i has ``values`` at ``indices``, both Ragged with equal splits, and 0
    elsewhere.

    To build a matrix: ``scipy.sparse.csr_matrix((values.values, indices.values, indices.row_splits), (len(rows),
    size))``.
    """

    indices: Ragged
    values: Ragged
    size: int

    def __len__(self) -> int:
        return len(self.indices)

    def rows(self, first: int, stop: int) -> Sparse:
        """Slice rows ``first`` to ``stop`` without copying values."""
        return replace(self, indices=self.indices.rows(first, stop), values=self.values.rows(first, stop))

    def pin_memory(self) -> Sparse:
        """Return the rows in page-locked memory, as :meth:`Ragged.pin_memory` does."""
        return replace(self, indices=self.indices.pin_memory(), values=self.values.pin_memory())


def _pinned(column: Any) -> Any:
    """Pin tensors and lists of them. NumPy arrays, such as texts, have no such memory."""
    return column.pin_memory() if hasattr(column, "pin_memory") else column


Column: TypeAlias = Array | Ragged | Sparse


@dataclass(frozen=True, slots=True)
class Scalars:
    """Scalar columns of one dtype. Row i of ``values`` is the column ``names[i]``."""

    names: tuple[str, ...]
    values: Array

    def __len__(self) -> int:
        return int(self.values.shape[1])

    def rows(self, first: int, stop: int) -> Scalars:
        """Slice rows ``first`` to ``stop`` without copying values."""
        return replace(self, values=self.values[:, first:stop])


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a batch. Scalars are grouped, since passing forty arrays takes longer than decoding them."""

    scalars: tuple[Scalars, ...]
    others: dict[str, Column]

    def __len__(self) -> int:
        return len(self.scalars[0] if self.scalars else next(iter(self.others.values())))

    def rows(self, first: int, stop: int) -> Columns:
        """Slice rows ``first`` to ``stop`` without copying values."""
        if first == 0 and stop == len(self):
            return self
        others = {name: rows_of(column, first, stop) for name, column in self.others.items()}
        return Columns(tuple(scalars.rows(first, stop) for scalars in self.scalars), others)

    def by_name(self) -> dict[str, Column]:
        """Return single columns by name, without copies."""
        single = {
            name: row for scalars in self.scalars for name, row in zip(scalars.names, scalars.values, strict=True)
        }
        return {**single, **self.others}


def rows_of(column: Any, first: int, stop: int) -> Any:
    """Slice rows ``first`` to ``stop`` of any column."""
    return column.rows(first, stop) if isinstance(column, Ragged | Sparse) else column[first:stop]


def joined(parts: list[Columns]) -> Columns:
    """Concatenate the rows of all parts."""
    if len(parts) == 1:
        return parts[0]
    scalars = [
        replace(first, values=np.concatenate([part.scalars[i].values for part in parts], axis=1))
        for i, first in enumerate(parts[0].scalars)
    ]
    return Columns(tuple(scalars), {name: _joined([part.others[name] for part in parts]) for name in parts[0].others})


def _joined(columns: list[Any]) -> Any:
    head = columns[0]
    if isinstance(head, Sparse):
        return replace(head, indices=_joined([c.indices for c in columns]), values=_joined([c.values for c in columns]))
    if isinstance(head, Ragged):
        ends = np.cumsum([0, *(int(c.row_splits[-1]) for c in columns)])
        splits = [columns[0].row_splits[:1], *(c.row_splits[1:] + end for c, end in zip(columns, ends, strict=False))]
        return Ragged(_joined([c.values for c in columns]), np.concatenate(splits))
    return np.concatenate(columns)
