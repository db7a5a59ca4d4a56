"""Configurations that were written by hand for logs of other trades and languages, and the samples of two days as pandas makes
them from the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.config.loading import LoadedConfig
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError
from ctr_samples.job.checking import problems
from ctr_samples.job.run import run
from ctr_samples.periods import parse_period
from ctr_samples.quality.checks import CHECKS
from ctr_samples.records.read import first_examples
from ctr_samples.shards import Manifest, open_storage
from ctr_samples.starter import as_yaml
from tests.starter.drafting import drafted
from tests.starter.samples_of_others import SAMPLES
from tests.starter.truths_of_others import SETS, Truth

BY_HAND = Path(__file__).parent / "by_hand"


def by_hand(name: str, root: Path) -> LoadedConfig:
    return load_config(BY_HAND / f"{name}.yaml", environ={"HERE": str(root)})


@pytest.fixture
def cataloged(spark: SparkSession) -> Iterator[Callable[[Truth, Path], None]]:
    """Make the tables of the catalog that a set needs, and remove them after the test."""
    names: list[str] = []

    def make(truth: Truth, root: Path) -> None:
        for statement in truth.catalog:
            names.append(statement.split()[2])
            spark.sql(statement.replace("ROOT", str(root)))

    yield make
    for name in names:
        spark.sql(f"DROP TABLE {name}")


def samples_in(root: Path, manifest: Manifest) -> pd.DataFrame:
    contract = ExampleContract.from_dict(dict(manifest.contract))
    rows = first_examples(open_storage(root / "samples"), manifest.shards, contract, 10**6)
    return pd.DataFrame(
        [{name: plain(value) for name, value in row.items() if name != "impression_id"} for row in rows]
    )


def plain(value: Any) -> Any:
    """A value of an example as pandas has it; a list as a tuple, so that it can be compared."""
    if isinstance(value, list | np.ndarray):
        return tuple(plain(one) for one in value)
    return value.decode() if isinstance(value, bytes) else value


def in_order(samples: pd.DataFrame, like: list[str]) -> pd.DataFrame:
    """Samples in the order of their times and keys, with the types of the records."""
    numbers = [name for name in like if pd.api.types.is_float_dtype(samples[name])]
    narrow = samples.astype(dict.fromkeys(numbers, np.float32))
    return narrow[like].sort_values(["at", "user", "item"], ignore_index=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_the_samples_of_a_configuration_by_hand_are_those_of_pandas(
    name: str, spark: SparkSession, cataloged: Callable[[Truth, Path], None], tmp_path: Path
) -> None:
    truth = SETS[name]
    truth.write(tmp_path)
    cataloged(truth, tmp_path)
    loaded = by_hand(name, tmp_path)
    assert problems(spark, loaded) == []
    for day in truth.days:
        found = samples_in(tmp_path, run(spark, loaded, day).manifest)
        expected = SAMPLES[name](tmp_path, day).map(plain)
        assert sorted(found.columns) == sorted(expected.columns)
        columns = sorted(found.columns)
        pd.testing.assert_frame_equal(in_order(found, columns), in_order(expected, columns), check_dtype=False)
        assert all(0 < expected[label].mean() < 0.5 for label in truth.flags)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", SETS)
def test_a_draft_asks_what_the_values_leave_open_and_nothing_else(name: str, tmp_path: Path) -> None:
    truth = SETS[name]
    truth.write(tmp_path)
    made = drafted(*(tmp_path / one for one in truth.inputs))
    assert tuple(question.option for question in made.open) == truth.asks
    assert made.missing.partition(" of ")[0] == truth.lacks


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_the_samples_of_a_draft_are_those_of_pandas_once_its_questions_are_answered(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    truth = SETS[name]
    truth.write(tmp_path)
    for array in tmp_path.glob("*.json"):  # as the draft asks for
        array.with_suffix(".jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in json.loads(array.read_text())))
    made = drafted(*(tmp_path / one for one in truth.inputs), **truth.options)
    assert made.open == ()
    path = tmp_path / "drafted.yaml"
    path.write_text(as_yaml(made.entries))
    loaded = load_config(path, [
        f"output.path={tmp_path / 'samples'}", "split.eval=0", "features.user={expr: string(impression.user), dtype: string}",
        "features.item={expr: string(impression.item), dtype: string}",
        "features.at={expr: unix_millis(impression.impression_time), dtype: int64}", *truth.edits])  # fmt: skip
    assert problems(spark, loaded) == []
    read = [
        *loaded.config.impressions.columns.values(),
        *(one.from_ or one.expr or "" for one in loaded.config.features.values()),
    ]
    assert not {*truth.never} & set(re.findall(r"\w+", " ".join(read)))
    periods = [str(day) for day in truth.days] if loaded.config.grain == "day" else ["all"]
    found = pd.concat(
        [samples_in(tmp_path, run(spark, loaded, parse_period(one), accept=CHECKS).manifest) for one in periods]
    )
    days = truth.days if loaded.config.grain == "day" else [truth.days[0] + timedelta(days=n) for n in range(-5, 9)]
    expected = pd.concat([SAMPLES[name](tmp_path, day) for day in days], ignore_index=True)
    same = {own: expected.eval(column) for own, column in truth.same.items()}
    keys = {"at": expected["at"], "item": expected["item"].map(str)}
    keys["user"] = expected["user"].map(str).replace("0", "")  # nobody
    columns = [*keys, *same]
    pd.testing.assert_frame_equal(
        in_order(found[columns].assign(user=found["user"], item=found["item"]), columns),
        in_order(pd.DataFrame(keys | same).map(plain), columns), check_dtype=False,
    )  # fmt: skip


@pytest.mark.slow
def test_an_array_over_many_lines_is_refused_as_lines(spark: SparkSession, tmp_path: Path) -> None:
    SETS["json_list"].write(tmp_path)
    text = (BY_HAND / "json_list.yaml").read_text()
    table = "{format: table, table: feed, date_column: shownAt}"
    schema = "pageView STRING, shownAt TIMESTAMP, viewer STRUCT<id: STRING, country: STRING>, card STRUCT<story: BIGINT, slot: INT, layout: STRING>, click STRUCT<dwellMs: BIGINT>"  # noqa: E501
    assert table in text
    (tmp_path / "lines.yaml").write_text(
        text.replace(table, f'{{format: json, path: "${{HERE}}/feed.json", schema: "{schema}"}}')
    )
    loaded = load_config(tmp_path / "lines.yaml", environ={"HERE": str(tmp_path)})
    with pytest.raises(InputError, match="are not a single JSON object"):
        run(spark, loaded, SETS["json_list"].days[0])
