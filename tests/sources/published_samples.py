"""The samples that a night published, as plain Python."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

from ctr_samples.readers import iter_batches


def samples_in(path: Path) -> dict[int, dict[str, Any]]:
    """The features and labels of each impression, by its number."""
    found = {}
    parts = [iter_batches(str(path), date="2019-06-05", split=split, batch_size=100) for split in ("train", "eval")]
    for batch in chain(*parts):
        columns = {**batch.features, **batch.labels}
        for row, number in enumerate(columns.pop("id").tolist()):
            found[number] = {name: _plain(values[row]) for name, values in columns.items()}
    return found


def manifests_in(path: Path) -> dict[str, str]:
    """The text of each manifest."""
    return {str(file): file.read_text() for file in path.rglob("*.json")}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return [_plain(item) for item in value.tolist()] if hasattr(value, "tolist") and value.ndim else value
