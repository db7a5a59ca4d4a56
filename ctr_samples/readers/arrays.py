"""The columns of a batch besides plain arrays: lists of any length, and sparse rows. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Ragged:
    """Lists of any length: row i has ``values[row_splits[i]:row_splits[i + 1]]``.

    ``row_splits`` is int64[rows + 1] and begins with 0. ``values`` is an array whose first axis counts the values of all rows,
    or for lists of lists another Ragged. ``values`` and ``row_splits[:-1]`` are what an embedding bag takes.
    """

    values: Any
    row_splits: Any

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def rows(self, first: int, stop: int) -> Ragged:
        """Some of the rows; values are not copied."""
        splits = self.row_splits[first : stop + 1]
        return Ragged(rows_of(self.values, int(splits[0]), int(splits[-1])), splits - splits[0])

    def to_list(self) -> list[Any]:
        """Python lists, for tests and for looking at them."""
        values = self.values.to_list() if isinstance(self.values, Ragged) else self.values.tolist()
        return [values[a:b] for a, b in zip(self.row_splits[:-1].tolist(), self.row_splits[1:].tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class Sparse:
    """Rows of ``size`` numbers, most of them 0: row i has ``values`` at ``indices``, both Ragged with equal splits.

    ``scipy.sparse.csr_matrix((values.values, indices.values, indices.row_splits), (len(rows), size))`` is the matrix.
    """

    indices: Ragged
    values: Ragged
    size: int

    def __len__(self) -> int:
        return len(self.indices)

    def rows(self, first: int, stop: int) -> Sparse:
        """Some of the rows; values are not copied."""
        return replace(self, indices=self.indices.rows(first, stop), values=self.values.rows(first, stop))


Column: TypeAlias = Array | Ragged | Sparse


@dataclass(frozen=True, slots=True)
class Scalars:
    """Scalar columns of one dtype: row i of ``values`` is the column ``names[i]``."""

    names: tuple[str, ...]
    values: Array

    def __len__(self) -> int:
        return int(self.values.shape[1])

    def rows(self, first: int, stop: int) -> Scalars:
        """Some of the rows; values are not copied."""
        return replace(self, values=self.values[:, first:stop])


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of some samples. Scalars are together, since handing over forty arrays takes longer than decoding them."""

    scalars: tuple[Scalars, ...]
    others: dict[str, Column]

    def __len__(self) -> int:
        return len(self.scalars[0] if self.scalars else next(iter(self.others.values())))

    def rows(self, first: int, stop: int) -> Columns:
        """Some of the rows; values are not copied."""
        if first == 0 and stop == len(self):
            return self
        others = {name: rows_of(column, first, stop) for name, column in self.others.items()}
        return Columns(tuple(scalars.rows(first, stop) for scalars in self.scalars), others)

    def by_name(self) -> dict[str, Column]:
        """Each column on its own, not copied."""
        single = {
            name: row for scalars in self.scalars for name, row in zip(scalars.names, scalars.values, strict=True)
        }
        return {**single, **self.others}


def rows_of(column: Any, first: int, stop: int) -> Any:
    """Rows ``first`` to ``stop`` of any column."""
    return column.rows(first, stop) if isinstance(column, Ragged | Sparse) else column[first:stop]


def joined(parts: list[Columns]) -> Columns:
    """One below the other."""
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
