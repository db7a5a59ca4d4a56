"""Sources of literal files, many of which one query reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pyspark.sql import DataFrame

from ctr_samples.config import Source

DAY = date(2019, 6, 5)
SOURCE: TypeAdapter[Source] = TypeAdapter(Source)


def directory(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def lines(path: Path, *text: str) -> None:
    directory(path.parent)
    path.write_text("\n".join(text) + "\n")


def write(path: Path, number: int) -> None:
    """Write a line of JSON with a number."""
    lines(path, f'{{"a": {number}}}')


def source_of(path: Path | str, **keys: Any) -> Source:
    """Lines of JSON, unless the keys say otherwise."""
    return SOURCE.validate_python({"format": "json", "path": str(path), "schema": "a INT, b STRING", **keys})


def rows_of(frames: Mapping[str, tuple[DataFrame, Sequence[str]]]) -> dict[str, list[tuple[Any, ...]]]:
    """What expressions give for the rows of frames of any columns, by one query; other values than JSON's are text."""
    as_text = [
        frame.selectExpr(*[f"{text} AS `{number}`" for number, text in enumerate(texts)]).selectExpr(
            f"{number} AS frame", "to_json(struct(*), map('ignoreNullFields', 'false')) AS row"
        )
        for number, (frame, texts) in enumerate(frames.values())
    ]
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in frames}
    for number, row in reduce(DataFrame.union, as_text).collect():
        found[list(frames)[number]].append(tuple(json.loads(row).values()))
    return found
