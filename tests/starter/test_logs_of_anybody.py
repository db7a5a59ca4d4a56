"""``ctr-samples init`` on logs with other names, languages, zones and layouts, and eight days of what it drafts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from typer.testing import Result

from ctr_samples.config import JobConfig, RowLabel, load_config
from ctr_samples.config.loading import LoadedConfig
from ctr_samples.errors import InputError, UsageError
from ctr_samples.job.checking import problems
from ctr_samples.job.run import run
from ctr_samples.periods import parse_period
from ctr_samples.serving.hashing import bucket_of, prefix_of
from ctr_samples.starter import look_at
from ctr_samples.starter.features import feature_of
from ctr_samples.starter.log import follows
from ctr_samples.starter.tables import Column, Table
from tests.starter.drafting import drafted, init, looked_at
from tests.starter.logs_of_anybody import DAYS, FIRST, SETS, Truth, big, rows, small_numbers


def loaded_draft(truth: Truth, root: Path) -> LoadedConfig:
    (root / "logs").mkdir()
    truth.write(root / "logs")
    result = said_to_init(root, *(root / "logs" / one for one in truth.inputs))
    assert result.exit_code == 0, result.stderr
    return load_config(root / "drafted.yaml", [f"output.path={root / 'out'}"])


def said_to_init(root: Path, *arguments: object) -> Result:
    return init(*arguments, "--output", root / "drafted.yaml")


def value_at(config: LoadedConfig, key: str) -> object:
    value: object = config.document
    for part in key.split("."):
        assert isinstance(value, dict)
        value = value[part]
    return value


def expressions(config: JobConfig) -> str:
    """All that the values of features are made from."""
    carried = config.impressions.columns
    named = [carried.get(name, name) for f in config.features.values()
             for name in re.findall(r"impression\.(\w+)", f.from_ or f.expr or "")]  # fmt: skip
    return " ".join(named)


@pytest.mark.some(3)
@pytest.mark.parametrize("name", SETS)
def test_a_log_of_anybody_is_understood_by_its_values(name: str, tmp_path: Path) -> None:
    truth = SETS[name]
    loaded = loaded_draft(truth, tmp_path)
    config = loaded.config
    assert config.impressions.source == truth.source
    assert config.impressions.time == truth.time
    assert {key: config.impressions.entities.get(key) for key in truth.keys} == truth.keys
    assert tuple(config.labels) == truth.labels
    assert {view: ".".join(config.views[view].joined_on) for view in truth.views} == truth.views
    assert (config.grain == "day") is truth.dated
    assert [column for column in truth.never if re.search(rf"\b{column}\b", expressions(config))] == []
    assert {key: value_at(loaded, key) for key in truth.more} == truth.more


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["german", "nameless", "large_table", "outcomes", "bulk", "orders", "glued", "russian", "typed"],
)
def test_eight_days_of_a_draft_pass_the_gate(name: str, spark: SparkSession, tmp_path: Path) -> None:
    truth = SETS[name]
    loaded = loaded_draft(truth, tmp_path)
    assert problems(spark, loaded) == []
    days = [str(FIRST + timedelta(days=n)) for n in range(DAYS)] if truth.dated else ["all"]
    manifests = [run(spark, loaded, parse_period(day)).manifest for day in days]
    for label, one in loaded.config.labels.items():
        assert sum(manifest.label_sum(label) for manifest in manifests) > 0, label
        assert isinstance(one, RowLabel) or all(m.labels[label]["orphans"] == 0 for m in manifests[1:-1])


def written(root: Path, **files: str) -> list[str]:
    for name, text in files.items():
        (root / f"{name}.csv").write_text(text)
    return [str(root / f"{name}.csv") for name in files]


SHOWN = "art,ort,wann\n" + "".join(f"x{n % 30},o{n % 4},2024-05-03 {n // 60:02}:{n % 60:02}:00\n" for n in range(900))
HITS = "art,wann\n" + "".join(f"x{n % 30},2024-05-03 {n // 60:02}:{n % 60:02}:30\n" for n in range(0, 900, 11))


def test_logs_that_share_too_little_are_named_with_what_to_say(tmp_path: Path) -> None:
    result = said_to_init(tmp_path, *written(tmp_path, gezeigt=SHOWN, treffer=HITS))
    assert result.exit_code == InputError.exit_code
    said = "It shares art with treffer. If that is the log of what followed, say `--log gezeigt --actions NAME`"
    assert said in result.stderr
    written_down = (tmp_path / "drafted.yaml").read_text()
    assert written_down.startswith("# NOT COMPLETE: No input says what was clicked: gezeigt has")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            ["--item", "artikel"],
            "There is no column artikel for `--item`: gezeigt has art, ort, wann; treffer has art, wann.",
        ),
        (["--log", "klicks"], "There is no input klicks; the inputs are gezeigt, treffer."),
        (["--actions", "gezeigt", "--actions", "treffer"], "All inputs are named by `--actions`; one must be the log"),
        (["--log", "gezeigt", "--label", "ort"], "--label ort has 4 values; expected a flag or a number."),
    ],
)
def test_what_a_person_says_wrongly_is_refused_with_what_there_is(
    said: list[str], sentence: str, tmp_path: Path
) -> None:
    result = said_to_init(tmp_path, *written(tmp_path, gezeigt=SHOWN, treffer=HITS), *said)
    assert result.exit_code == UsageError.exit_code
    assert sentence in result.stderr


def test_no_table_is_joined_since_small_numbers_overlap(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    small_numbers(tmp_path / "logs")
    made = drafted(*(tmp_path / "logs" / one for one in SETS["small_numbers"].inputs))
    assert made.roles["unrelated"] == "not used: no column of it holds a key of the log"


@pytest.mark.parametrize(
    ("name", "user", "item"),
    [("german", str, "x{}".format), ("typed", str, str), ("digits", lambda n: str(big(n)), lambda n: str(big(n)))],
    ids=["german", "typed", "digits"],
)
def test_values_that_a_draft_knows_hardly_ever_share_an_id(
    name: str, user: Callable[[int], str], item: Callable[[int], str], tmp_path: Path
) -> None:
    features = loaded_draft(SETS[name], tmp_path).config.features
    for feature, known in (("user_id", {user(r.user) for r in rows()}), ("item_id", {item(r.item) for r in rows()})):
        buckets = (features[feature].hash_buckets or 2) - 1
        ids = {bucket_of(prefix_of(feature), [one.encode()], buckets) for one in known}
        assert len(known) - len(ids) <= 0.02 * len(known), feature


def test_the_line_by_which_users_can_be_forgotten_is_offered(tmp_path: Path) -> None:
    loaded = loaded_draft(SETS["german"], tmp_path)
    text = (tmp_path / "drafted.yaml").read_text()
    assert "user_key" not in loaded.config.features
    line = "user_key: {from: impression.user, dtype: int64}"
    assert f"  # {line}\n" in text
    (tmp_path / "drafted.yaml").write_text(text.replace(f"# {line}", line))
    assert load_config(tmp_path / "drafted.yaml").config.features["user_key"].dtype == "int64"


def table_of(tmp_path: Path, name: str, text: str) -> Table:
    (tmp_path / name).write_text(text)
    (table,) = looked_at(tmp_path / name)
    return table


def test_ids_that_no_integer_holds_are_text(tmp_path: Path) -> None:
    text = "".join(f"{big(n)},{n:05},{n * 100}\n" for n in range(200))
    table = table_of(tmp_path, "t.csv", f"wide,zip,price\n{text}")
    assert [column.kind for column in table.columns] == ["STRING", "STRING", "BIGINT"]
    each = "it is different in each row"
    kinds = [made if isinstance(made := feature_of(column), str) else made.keys["dtype"] for column in table.columns]
    assert kinds == [each, each, "float32"]


def test_integers_without_a_sign_are_ids_and_plain_timestamps_have_no_zone(tmp_path: Path) -> None:
    stamps = pa.array([datetime(2024, 5, 3, n // 60, n % 60) for n in range(300)], pa.timestamp("us"))
    ids = pa.array([2**63 + n % 50 for n in range(300)], pa.uint64())
    flags = [n % 7 == 0 for n in range(300)]
    parquet.write_table(pa.table({"vid": ids, "t": stamps, "click": flags}), tmp_path / "log.parquet")
    made = drafted(tmp_path / "log.parquet")
    values = {entry.key: entry.value for entry in made.entries}
    assert {entry.key: entry.value for entry in values["impressions"]}["keys"] == {"item": "string(vid)"}
    assert any(todo.startswith("timezone: in which zone are times without one") for todo in made.todos)


@pytest.mark.parametrize("first", [1_000_000_000, 1_000_000_000_000, 10**15, 1_700_000_000_000_000])
def test_ids_that_could_be_times_are_none(first: int, tmp_path: Path) -> None:
    rows = "".join(f"{first + n % 300},{n % 5}\n" for n in range(900))
    assert table_of(tmp_path, "t.csv", f"编号,x\n{rows}").columns[0].time is None


def test_columns_that_have_nothing_to_do_with_a_label_do_not_follow_it() -> None:
    for every in (3, 10, 200):  # of so many impressions one is clicked
        positive = [n * 7919 % 10_007 % every == 0 for n in range(6000)]
        for values in (2, 3, 50, 400):
            column = Column("x", "x", "BIGINT", [n * 104_729 % 7_001 % values for n in range(6000)])
            assert follows(column, positive) is None, (every, values)


@pytest.mark.parametrize("every", [3, 10, 200])
def test_columns_that_follow_a_label_are_found_however_rare_it_is(every: int) -> None:
    positive = [n % every == 0 for n in range(6000)]
    after = [int(yes and n % 2 == 0) * n for n, yes in enumerate(positive)]
    assert "so it seems to follow from it" in str(follows(Column("x", "x", "BIGINT", after), positive))
    before = [int(yes or n % 2 == 0) for n, yes in enumerate(positive)]
    assert "so it seems an outcome" in str(follows(Column("x", "x", "BIGINT", before), positive))


def test_a_history_of_ids_is_no_free_text(tmp_path: Path) -> None:
    lists = [" ".join(f"N{(n * 7 + k * 13) % 400}" for k in range(30)) for n in range(200)]
    text = "".join(f"{n},{one}\n" for n, one in enumerate(lists))
    made = feature_of(table_of(tmp_path, "t.csv", f"id,read\n{text}").columns[1])
    assert not isinstance(made, str)
    assert made.keys["ragged"]


def test_files_of_which_some_lack_the_names_are_told(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log/part-0.csv").write_text("user,click\n" + "u1,0\nu2,1\n" * 9)
    (tmp_path / "log/part-1.csv").write_text("u1,0\nu2,1\n" * 9)
    (table,) = looked_at(tmp_path / "log")
    assert [note for note in table.todo if "lack the line of names 'user,click': write it into each" in note]
    assert table.rows == 36


WHAT_WAS_MISSING = ["--log", "gezeigt", "--actions", "treffer", "--item", "art", "--time", "wann"]


@pytest.fixture
def draft_without_a_label(tmp_path: Path) -> Path:
    """A draft that is not complete, beside the logs that it was made from."""
    assert said_to_init(tmp_path, *written(tmp_path, gezeigt=SHOWN, treffer=HITS)).exit_code == InputError.exit_code
    return tmp_path / "drafted.yaml"


def again(drafted: Path, *said: str) -> Result:
    return said_to_init(drafted.parent, str(drafted.parent / "gezeigt.csv"), str(drafted.parent / "treffer.csv"), *said)


def test_a_draft_that_is_not_complete_is_replaced_until_it_is(draft_without_a_label: Path) -> None:
    first = draft_without_a_label.read_bytes()
    assert again(draft_without_a_label, "--item", "artikel").exit_code == UsageError.exit_code
    assert draft_without_a_label.read_bytes() == first
    assert again(draft_without_a_label).exit_code == InputError.exit_code
    assert draft_without_a_label.read_bytes() == first
    result = again(draft_without_a_label, *WHAT_WAS_MISSING)
    assert result.exit_code == 0, result.stderr
    complete = draft_without_a_label.read_bytes()
    config = load_config(draft_without_a_label).config
    assert (config.impressions.source, config.impressions.entities) == ("gezeigt", {"item": "art"})
    assert list(config.labels) == ["treffer"]
    assert again(draft_without_a_label, *WHAT_WAS_MISSING).exit_code == UsageError.exit_code
    assert draft_without_a_label.read_bytes() == complete


@pytest.mark.parametrize(
    "edit",
    [
        lambda draft: draft + b"\n",
        lambda draft: b"# mine\n" + draft,
        lambda draft: draft.removesuffix(b"\n"),
        lambda draft: draft.replace(b"\n", b"\r\n"),
        lambda draft: draft.replace(b"grain", b"gra\xffin", 1),
        lambda draft: draft + draft,
        lambda draft: b"".join(draft.splitlines(keepends=True)[:-1]),
        lambda draft: draft.splitlines(keepends=True)[-1],
        lambda draft: b"precious",
    ],
)
def test_a_draft_that_somebody_edited_is_never_replaced(
    edit: Callable[[bytes], bytes], draft_without_a_label: Path
) -> None:
    edited = edit(draft_without_a_label.read_bytes())
    draft_without_a_label.write_bytes(edited)
    result = again(draft_without_a_label, *WHAT_WAS_MISSING)
    assert result.exit_code == UsageError.exit_code
    assert "exists already" in result.stderr
    assert draft_without_a_label.read_bytes() == edited


def test_a_draft_that_somebody_edits_while_the_inputs_are_looked_at_stays(
    draft_without_a_label: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_while_a_person_writes(*arguments: Any) -> Any:
        draft_without_a_label.write_text("precious")
        return look_at(*arguments)

    monkeypatch.setattr("ctr_samples.starter.look_at", look_while_a_person_writes)
    assert again(draft_without_a_label, *WHAT_WAS_MISSING).exit_code == UsageError.exit_code
    assert draft_without_a_label.read_text() == "precious"
