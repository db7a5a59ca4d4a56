"""Both sides brought together in parts, some of them in files, as in one piece."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.errors import DamagedFile
from ctr_samples.served import comparing
from ctr_samples.served.comparing import Sides, smallest
from ctr_samples.served.log import ID
from tests.served.served_day import small_compared, small_lines


def rows(ids: list[int | None], **columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({ID: pa.array(ids, pa.int64()), **columns})


@pytest.mark.parametrize("memory", [comparing.MEMORY, 200])
def test_parts_in_files_have_what_one_part_in_memory_has(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    monkeypatch.setattr(comparing, "MEMORY", memory)
    ids = (np.arange(-500, 500) * 0x9E3779B97F4A7C1).tolist()
    with Sides.of(2000) as sides:
        for start in range(0, 1000, 100):
            sides.samples.add(rows(ids[start : start + 100], a=list(range(start, start + 100))))
        sides.served.add(rows([*ids[900:], 7, None], b=[*range(900, 1000), -1, -2]))
        sides.served.add(rows(ids[:50], b=[float(n) for n in range(50)]))  # another type, as JSON files may have
        sides.served.add(rows(ids[:5], b=[float(-n) for n in range(5)]))
        parts = list(sides.matched())
    pairs = {
        (a, b)
        for part in parts
        if part.samples is not None and part.served is not None
        for a, b in zip(part.samples["a"].to_pylist(), part.served["b"].to_pylist(), strict=True)
    }
    assert pairs == {(n, float(n)) for n in (*range(50), *range(900, 1000))}, "the first line of an id counts"
    assert sum(part.repeated for part in parts) == 5
    assert sorted(one for part in parts for one in part.no_sample.tolist()) == [7]
    assert sum(len(part.not_served) for part in parts) == 850
    assert sides.served.without_id == 1
    assert len(parts) == (1 if memory > 200 else 10)


def test_the_smallest_ids_of_parts_are_those_of_the_whole() -> None:
    ids = np.arange(1000, dtype=np.int64) * 0x9E3779B97F4A7C1
    whole = set(ids[smallest(ids, 20)].tolist())
    parts = [part[smallest(part, 20)] for part in np.array_split(ids, 7)]
    together = np.concatenate(parts)
    assert set(together[smallest(together, 20)].tolist()) == whole


def test_a_comparison_in_parts_has_the_same_counts(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = small_compared(small, small_lines(wrong=50))
    monkeypatch.setattr(comparing, "MEMORY", 10_000)
    in_parts = small_compared(small, small_lines(wrong=50))
    assert in_parts.features == whole.features
    assert in_parts.coverage == whole.coverage
    assert whole.features["number"].differ == 50


def test_a_damaged_shard_is_an_error(small: Path) -> None:
    shard = next((small / "out").rglob("*.tfrecord"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(DamagedFile, match=shard.name):
        small_compared(small, small_lines())
