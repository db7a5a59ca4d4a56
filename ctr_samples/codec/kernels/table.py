"""Kernels that Python calls, with their modules and argument counts. Imports no Numba."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple, get_type_hints

Kernel = Callable[..., int]


class KernelEntry(NamedTuple):
    """The module of a kernel in this package, and its number of int64 arguments."""

    module: str
    arguments: int


@dataclass(frozen=True, slots=True)
class Kernels:
    """Compiled functions that write and measure, all of which release the GIL. Their modules document the arguments."""

    write_records: Annotated[Kernel, KernelEntry("encode", 9)]
    write_byte_arrays: Annotated[Kernel, KernelEntry("encode", 6)]
    measure_float32: Annotated[Kernel, KernelEntry("measure", 4)]
    measure_float64: Annotated[Kernel, KernelEntry("measure", 4)]
    measure_int64: Annotated[Kernel, KernelEntry("measure", 4)]
    count_distinct: Annotated[Kernel, KernelEntry("measure", 4)]
    last_actions: Annotated[Kernel, KernelEntry("histories", 14)]
    hash_texts: Annotated[Kernel, KernelEntry("hashes", 4)]


@dataclass(frozen=True, slots=True)
class Decoders:
    """Compiled functions that read records. They take longest to compile, and a job that writes needs none of them."""

    walk_frames: Annotated[Kernel, KernelEntry("frames", 5)]
    read_records: Annotated[Kernel, KernelEntry("decode", 9)]
    read_byte_arrays: Annotated[Kernel, KernelEntry("decode", 5)]
    survey_records: Annotated[Kernel, KernelEntry("survey", 7)]


def entries(kind: type[Kernels | Decoders]) -> dict[str, KernelEntry]:
    """Return the entries by field name, in field order."""
    return {name: hint.__metadata__[0] for name, hint in get_type_hints(kind, include_extras=True).items()}


TABLE: dict[str, KernelEntry] = entries(Kernels) | entries(Decoders)
"""All entries by field name."""
