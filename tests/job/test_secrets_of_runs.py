"""Values of the environment in runs: in no error, warning, manifest, page, metrics or event."""

from __future__ import annotations

import json
import traceback
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from ruamel.yaml import YAML

from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.config.masking import masking
from ctr_samples.job import run as job
from ctr_samples.job.checking import problems
from ctr_samples.job.many_days import DayOutcome
from ctr_samples.telemetry import JsonLines
from tests.support.tiny_days import CONFIG, write_days
from tests.support.whole_runs import write_config

DAY = date(2019, 6, 5)
WHERE = "where: kind = 'click'"
"""The expression of the label."""


def loaded_with(root: Path, old: str, new: str, **environ: str) -> LoadedConfig:
    return load_config(write_config(root, "changed", CONFIG, {old: new}), environ=environ)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tiny")
    write_days(root, date(2019, 6, 4), 3)
    return root


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("expression", "secret"),
    [
        ("${X} = 1", "Hush_Hush_31415"),
        ("HUSHED_${X}(kind)", "Hush_31415"),
        ("${X}(kind) = 'a'", "Reflect_Hush"),
        ("kind = 'click' and cast(kind as ${X}) = 1", "Hush_type"),
        ("named_struct('${X}', 1) = 2", "Hush-Hush"),
        ("cast(reverse('${X}') as int) = price", "31415-hsuh-hush"),
        ("cast(hex('${X}') as date) = t", "hush"),
        ("cast(upper('${X}') as timestamp) = t", "hush-hush"),
        ("timestamp '${X}' = t", "hush-hush"),
        ("lpad(kind, ${X}, 'x') = 'a'", "31415926"),
        ("kind =" + " " * 180 + "'${X}' '", "Hush-hush" * 9),
        ("kind = 'click' and `${X}`.b = 1", "Hush hush"),
        ("from_json(kind, '${X} timestamp') = 1", "hush"),
        ("element_at(array('${X}'), 5) = 'x'", "hush-hush"),
        ("raise_error('${X}')", "hush-hush"),
    ],
)
def test_no_error_of_an_expression_tells_a_value(spark: SparkSession, days: Path, expression: str, secret: str) -> None:
    quoted = json.dumps(f"kind = 'click' and ({expression})" if expression.startswith("cast") else expression)
    loaded = loaded_with(days, WHERE, f"where: {quoted}", X=secret)
    found = problems(spark, loaded, DAY)
    said = "\n".join(found)
    try:
        job.run(spark, loaded, DAY)
    except Exception as error:
        said += "".join(traceback.format_exception(error))
    # Of what the file itself says only the name of the variable is left.
    said = said.replace("HUSHED_", "").lower()
    for piece in ("hush", "hsuh", "31415", "31,415", "68757368", "48757368"):
        assert piece not in said


@pytest.mark.thorough
def test_nothing_that_a_run_leaves_has_a_value(spark: SparkSession, days: Path, tmp_path: Path) -> None:
    path = f"{days}/log/{{date}}.json"
    loaded = loaded_with(days, "path: ROOT/log/{date}.json", "path: '${X}'", X=path)
    loaded = load_config(loaded.path, [f"output.path={tmp_path}/out"], {"X": path})
    done = job.run(spark, loaded, DAY)
    texts = [file.read_text("latin-1") for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert len(texts) > 5
    assert [text for text in texts if str(days) in text] == []
    told: list[str] = []
    with masking():
        load_config(loaded.path, [f"output.path={tmp_path}/out"], {"X": path})
        JsonLines(loaded.config, told.append).ended(DayOutcome.of_result(DAY, done, 0))
        missing = DayOutcome.of_error(DAY, RuntimeError(f"no {path.replace('{date}', str(DAY)).upper()}"), 0)
        JsonLines(loaded.config, told.append).ended(missing)
    assert str(days).lower() not in " ".join(told).lower()
    assert [json.loads(line)["outcome"] for line in told] == ["published", "failed"]


MORE = (
    CONFIG.replace("days_after: 1", "days_after: 1\n    days_before: 1")
    + """views:
  latest: {source: log, entity: user, key: user, event_time: t, ttl: 1d, where: kind = 'click'}
  counts:
    {source: log, entity: user, key: user, event_time: t, aggregates: {windows: [1h], counts: {n: price > 1}, sums: {s: price}}}
histories:
  seen: {source: log, key: user, item: item, time: t, last: 5, within: 1d}
"""
).replace("features:\n", """features:
  latest: {from: latest.price, dtype: float32, default: 0}
  n: {from: counts.n_1h, dtype: float32, default: 0}
  seen: {expr: size(seen.items), dtype: int64, default: 0}
  length: {expr: length(impression.user), dtype: int64}
""")  # fmt: skip
PLACES = [
    ("sources", "log", "path"),
    ("sources", "log", "schema"),
    ("impressions", "where"),
    ("impressions", "time"),
    ("impressions", "article"),
    ("impressions", "columns", "price"),
    ("features", "price", "from"),
    ("features", "latest", "from"),
    ("features", "length", "expr"),
    ("features", "seen", "expr"),
    ("views", "latest", "key"),
    ("views", "latest", "event_time"),
    ("views", "latest", "where"),
    ("views", "counts", "aggregates", "counts", "n"),
    ("views", "counts", "aggregates", "sums", "s"),
    ("histories", "seen", "item"),
    ("histories", "seen", "time"),
    ("output", "path"),
]
SHAPES = {
    "a name": ("${X}", "Hush_Hush_31415"),
    "a part of a name": ("impression.${X}", "Hush_Hush_31415"),
    "an evaluated number": ("cast(reverse('${X}') as int)", "51413-HSUH-hsuh"),
    "columns": ("t string, kind string, user string, item string, price struct<${X}: int>", "Hush_31415"),
    "a path": ("${X}", "/hush-hush/31415/{date}/Hush.json"),
}


def changed(root: Path, output: Path, where: tuple[str, ...] = (), value: str = "") -> Path:
    """The larger configuration, with another value at one place."""
    document = YAML(typ="safe", pure=True).load(MORE.replace("ROOT/out", str(output)).replace("ROOT", str(root)))
    node = document
    for part in where[:-1]:
        node = node[part]
    if where:
        node[where[-1]] = value
    path = output.with_suffix(".yaml")
    path.write_text(json.dumps(document))
    return path


def test_the_configuration_with_all_places_fits_its_inputs(spark: SparkSession, days: Path, tmp_path: Path) -> None:
    assert problems(spark, load_config(changed(days, tmp_path / "out")), DAY) == []


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("where", PLACES, ids=".".join)
def test_no_place_tells_a_value_to_whoever_runs_it(
    spark: SparkSession, days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: tuple[str, ...], shape: str
) -> None:
    around, secret = SHAPES[shape]
    monkeypatch.chdir(tmp_path)  # an output may be a relative path
    path = changed(days, tmp_path / "out", where, around)
    said = []
    try:
        loaded = load_config(path, environ={"X": secret})
        said += problems(spark, loaded, DAY)
        job.run(spark, loaded, DAY)
    except Exception as error:
        said.append("".join(traceback.format_exception(error)))
    found = [piece for piece in ("hush", "hsuh", "31415", "51413") if piece in "\n".join(said).lower()]
    assert found == [], "\n".join(said)
