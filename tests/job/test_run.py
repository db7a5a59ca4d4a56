"""Whole runs: real logs, simulated logs with known truth, re-runs, and inputs that must publish nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from unittest.mock import MagicMock

import pandas as pd
import pytest
from jsonschema import validate
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import ConfigError, EncodeError, InputError, StorageError
from ctr_samples.job import planning
from ctr_samples.job import run as job
from ctr_samples.records.read import damage_of
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.serving.hashing import SEPARATOR, prefix_of, text_of, xxh64
from ctr_samples.shards import DayOutput, StoredFile, day_output, latest_manifest, open_storage, publish
from ctr_samples.shards.clean import Retention
from ctr_samples.shards.generation_history import rollback
from ctr_samples.shards.generations import mark_forgotten
from ctr_samples.shards.storage import LocalStorage
from ctr_samples.simulator import SimulationSpec, simulate
from ctr_samples.sparksql.session import run_session
from tests.support.jvm_questions import noted_questions
from tests.support.open_bandit import TUESDAY, open_bandit
from tests.support.project import PROJECT
from tests.support.tiny_days import write_days
from tests.support.whole_runs import Made, Told, made

DAY = date(2019, 6, 5)


def impression_id(request: object, user: object, article: object, micros: object = None) -> int:
    """The id of an impression, by the hash in Python; ``micros`` is its time, which counts where there is no request."""
    parts = [text_of(part, "impression_id") for part in (request, user, article, micros)]
    value = xxh64(prefix_of("impression") + SEPARATOR.join(parts))
    return value - (value >> 63 << 64)


@pytest.fixture(scope="module")
def tuesday(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """One published day of real logs, after a run of long ago was killed."""
    output = tmp_path_factory.mktemp("open_bandit")
    killed = output / "dt=2019-11-26/data/20191127T020000-aaaaaaaa/train"
    killed.mkdir(parents=True)
    (killed / "part-00000-0-00000001.tfrecord").write_bytes(b"half a day")
    os.utime(killed / "part-00000-0-00000001.tfrecord", (0, 0))
    return made(spark, open_bandit(output), TUESDAY, accept=())


@pytest.mark.slow
def test_a_week_of_real_logs_has_exactly_38_clicks_in_10000_impressions(spark: SparkSession, tuesday: Made) -> None:
    loaded = open_bandit(tuesday.output)
    week = [job.run(spark, loaded, date(2019, 11, day)).manifest for day in range(24, 31)]
    assert sum(m.accounting["impressions"] for m in week) == 10_000
    assert sum(m.records for m in week) == 10_000
    assert sum(m.label_sum("clicked") for m in week) == 38
    assert [m.label_sum("clicked") for m in week] == [4, 3, 6, 10, 6, 8, 1]


def test_the_published_bytes_are_what_the_manifest_says_and_what_a_killed_run_left_is_gone(tuesday: Made) -> None:
    output, manifest = tuesday.output, tuesday.manifest
    assert list(damage_of(open_storage(output), manifest.shards)) == []
    assert latest_manifest(open_storage(output), TUESDAY) == manifest
    assert (output / "dt=2019-11-26/_SUCCESS").exists()
    assert manifest.accounting == {"impressions": 1300, "samples": 1300, "no_time": 0, "no_article": 0, "repeated": 0}
    assert manifest.label_mature
    assert [path.name for path in (output / "dt=2019-11-26/data").iterdir()] == [manifest.run_id]


def test_the_manifest_and_the_metrics_of_a_run_follow_their_published_schemas(tuesday: Made) -> None:
    metrics = json.loads((tuesday.directory / "metrics.json").read_text())
    documents = {"shards/manifest": json.loads(tuesday.manifest.to_json()), "quality/metrics": metrics}
    for name, document in documents.items():
        validate(document, json.loads((PROJECT / f"ctr_samples/{name}.schema.json").read_text()))


def test_a_store_that_lets_nothing_be_removed_is_a_warning_and_no_reason_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot_be_listed(storage: LocalStorage, directory: str) -> list[StoredFile]:
        raise StorageError("Cannot read it: Permission denied.")

    warnings: list[str] = []
    monkeypatch.setattr(LocalStorage, "files", cannot_be_listed)
    DayOutput.open(open_storage(tmp_path), TUESDAY, "open_bandit", Retention(), warnings.append)
    assert warnings == ["Could not clean up after earlier runs of 2019-11-26: Cannot read it: Permission denied."]


def test_the_click_rate_of_an_item_counts_only_the_days_before(tuesday: Made) -> None:
    log = pd.read_parquet(PROJECT / "data/open_bandit/log.parquet")
    items = pd.read_parquet(PROJECT / "data/open_bandit/items.parquet")
    day = log[log.timestamp.dt.strftime("%F") == "2019-11-26"].copy()
    # In the first hour of Tuesday Monday's counts are not ready yet.
    early = day.timestamp < pd.Timestamp("2019-11-26 01:00", tz="UTC")
    rates = {}
    for name, last in (("early", "2019-11-24"), ("late", "2019-11-25")):
        past = log[log.timestamp.dt.strftime("%F") <= last].groupby("item_id").click.agg(["sum", "count"])
        rates[name] = (past["sum"] + 0.0038 * 200) / (past["count"] + 200)
    day["item_click_rate"] = day.item_id.map(rates["late"]).where(~early, day.item_id.map(rates["early"]))
    day["impression_id"] = [impression_id(row, None, item) for row, item in zip(day.row, day.item_id, strict=True)]
    columns = ["position", "item_feature_0", "item_click_rate"]
    expected = day.merge(items, on="item_id").set_index("impression_id")[columns]
    samples = tuesday.frame.set_index("impression_id")[columns]
    pd.testing.assert_frame_equal(samples.sort_index(), expected.sort_index(), check_dtype=False, rtol=1e-6)


GOLDEN = [
    ("eval", 0, 129, 1995092599),
    ("train", 0, 524, 523835509),
    ("eval", 1, 115, 3844667873),
    ("train", 1, 532, 3342345506),
]
"""Split, partition, records and CRC-32C of the shards of a day: who changes a byte of the samples says so here."""


def contents(of: Made) -> list[tuple[str, int, int, int]]:
    return [(shard.split, shard.partition, shard.records, shard.crc32c) for shard in of.manifest.shards]


def test_the_samples_of_a_day_have_the_bytes_that_they_always_had(tuesday: Made) -> None:
    assert tuesday.manifest.compression == "none"
    assert contents(tuesday) == GOLDEN


@pytest.mark.thorough
def test_a_later_run_of_a_session_asks_the_jvm_few_things(
    spark: SparkSession, tuesday: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = noted_questions(monkeypatch)
    job.run(spark, open_bandit(tmp_path), TUESDAY)
    # Each takes a tenth of a millisecond or more; with call sites, a second plan and nothing remembered it was 40,000.
    assert 1_000 < len(asked) < 3_500


def test_the_same_inputs_and_config_are_published_once(spark: SparkSession, tuesday: Made) -> None:
    again = job.run(spark, open_bandit(tuesday.output), TUESDAY)
    assert not again.published
    assert again.manifest.run_id == tuesday.manifest.run_id
    assert SparkSession.getActiveSession() is spark, "the caller's session is no longer the active one"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.caseSensitive") == "false"


@pytest.mark.slow
def test_a_forced_run_publishes_the_next_generation_with_the_same_bytes(
    spark: SparkSession, tuesday: Made, tmp_path: Path
) -> None:
    copy = shutil.copytree(tuesday.output, tmp_path / "copy")
    mark_forgotten(open_storage(copy), TUESDAY, 1)
    told = Told()
    again = made(spark, open_bandit(copy), TUESDAY, force=True, reporter=told)
    assert (again.published, again.manifest.generation) == (True, 2)
    assert told.warnings[0].startswith("Users were forgotten with generation 1 of 2019-11-26; this run")
    assert again.shards == tuesday.shards


def test_a_run_after_a_rollback_has_nothing_to_do_if_it_would_make_the_same_samples(
    spark: SparkSession, tuesday: Made, tmp_path: Path
) -> None:
    storage = open_storage(shutil.copytree(tuesday.output, tmp_path / "copy"))
    bad = replace(tuesday.manifest, generation=2, run_id="20191127T020000-0000bad0", fingerprint="0" * 64, shards=())
    publish(storage, replace(bad, accounting={"impressions": 0, "samples": 0}, views={}))
    back = rollback(storage, TUESDAY, 1, datetime.now(UTC), "0000600d")
    again = job.run(spark, open_bandit(tmp_path / "copy"), TUESDAY)
    assert (again.published, again.manifest) == (False, back)


@pytest.mark.slow
def test_a_run_that_took_longer_than_its_files_are_kept_publishes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_store = day_output.check_store
    monkeypatch.setattr(day_output, "check_store", lambda *place: check_store(*place) - timedelta(days=2))
    with pytest.raises(ConfigError, match="longer than `output.retention.longest_run: 1 day, 0:00:00`"):
        job.run(spark, open_bandit(tmp_path), TUESDAY)
    assert latest_manifest(open_storage(tmp_path), TUESDAY) is None


FORMS = {
    "gzip": ("output.compression=gzip", ".tfrecord.gz"),
    "zlib": ("output.compression=zlib", ".tfrecord.zlib"),
    "small shards": ("output.shard_size=64KiB", ".tfrecord"),
    "written by TensorFlow": ("output.engine=tensorflow", ".tfrecord"),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_shards_of_any_form_hold_the_same_samples(
    spark: SparkSession, tuesday: Made, tmp_path: Path, form: str
) -> None:
    change, suffix = FORMS[form]
    other = made(spark, open_bandit(tmp_path, change), TUESDAY)
    assert all(shard.path.endswith(suffix) for shard in other.manifest.shards)
    assert list(damage_of(open_storage(tmp_path), other.manifest.shards)) == []
    found, expected = (day.frame.sort_values("impression_id", ignore_index=True) for day in (other, tuesday))
    pd.testing.assert_frame_equal(found, expected)
    if form == "small shards":
        assert [s.records for s in other.manifest.of_split("train")] == [90] * 5 + [74] + [90] * 5 + [82]
    if form == "written by TensorFlow":
        assert contents(other) == GOLDEN


def test_settings_that_would_hide_damage_are_not_taken_from_the_cluster(spark: SparkSession) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    own.conf.set("spark.sql.ansi.enabled", "false")
    session = run_session(own, "Asia/Shanghai")
    assert session.conf.get("spark.sql.files.ignoreCorruptFiles") == "false"
    assert session.conf.get("spark.sql.ansi.enabled") == "true"
    assert session.conf.get("spark.sql.session.timeZone") == "Asia/Shanghai"


ITEMS = (
    "sources.items={format: csv, path: 'ROOT/items.csv', header: true, schema: 'item_id BIGINT, item_feature_0 DOUBLE'}"
)
REST = [f"features.item_feature_{i}={{expr: '1', dtype: int64}}" for i in (1, 2, 3)]
REFUSED: dict[str, tuple[list[str], str]] = {
    "a missing column": (
        ["impressions.article=item"],
        "impressions.article: there is no column 'item'; did you mean 'item_id'?",
    ),
    "a label as a feature": (
        ["features.cheat={expr: clicked, dtype: int64}"],
        "features.cheat: there is no column 'clicked'",
    ),
    "a vector of another length": (["features.affinity.shape=[81]"], "'affinity'"),
    "a damaged file": (["sources.log.path=ROOT/log.parquet"], r"log\.parquet cannot be read"),
    "malformed lines of a table without times": (
        [ITEMS, *REST],
        re.escape(
            "sources.items: 2 of 3 lines are malformed (66.67%), more than `bad_records.max_rate: 0` allows: `item_id` = "
            "'10000169349117863715' is not a BIGINT in 2 of 3 lines; use STRING. Look at the file, or raise the rate."
        ),
    ),
    "a day without impressions": (
        ["impressions.where=row < 0"],
        "sources.log has no impressions on 2019-11-26 where row < 0; check the date, the time zone",
    ),
    "times and articles that cannot be read": (
        ["impressions.time='if(item_id = 7, null, timestamp)'", "impressions.article='nullif(item_id, 8)'"],
        r"impressions on 2019-11-26; [1-9]\d* have no readable time and [1-9]\d* no readable article, more than",
    ),
    "a division by zero": (
        ["features.bad={expr: impression.position / 0, dtype: float32}"],
        r"features\.bad(\.expr)?: the expression fails on a value in the data: Division by zero\.",
    ),
}


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(name, marks=() if n == 0 else pytest.mark.thorough if n < 6 else pytest.mark.slow)
        for n, name in enumerate(REFUSED)
    ],
)
def test_what_no_run_can_use_is_refused_in_one_sentence_and_nothing_is_published(
    spark: SparkSession, tmp_path: Path, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    changes, said = REFUSED[what]
    data = (PROJECT / "data/open_bandit/log.parquet").read_bytes()
    (tmp_path / "log.parquet").write_bytes(data[:5000] + b"\0" * 100_000 + data[105_000:])
    (tmp_path / "items.csv").write_text("item_id,item_feature_0\n1,0.5\n10000169349117863715,1.5\nx,2.5\n")
    changed = [change.replace("ROOT", str(tmp_path)) for change in changes]
    error = EncodeError if what == "a vector of another length" else InputError
    with pytest.raises(error, match=said) as caught:
        job.run(spark, open_bandit(tmp_path / "out", *changed), TUESDAY)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3
    assert "at org.apache" not in "".join(capfd.readouterr())
    assert not [*tmp_path.rglob("manifests/*"), *tmp_path.rglob("_SUCCESS")]
    assert not (what == "a missing column" and (tmp_path / "out").exists()), "something was written"


@pytest.mark.slow
def test_samples_of_simulated_logs_have_exactly_the_true_impressions_and_clicks(
    spark: SparkSession, tmp_path: Path
) -> None:
    start = date(2019, 6, 4)
    simulate(SimulationSpec(days=2, start=start, impressions=4_000, users=400, malformed_rate=0.005, seed=3), tmp_path)
    places = {
        "actions": "user_action/dt={date}",
        "profiles": "user_profile/dt={date}",
        "vectors": "article_vector/dt={date}",
        "articles": "article_profile",
    }
    inputs = [f"sources.{name}.path='{tmp_path}/{path}'" for name, path in places.items()]
    loaded = load_config(PROJECT / "conf/simulated.yaml", [*inputs, f"output.path={tmp_path}/out"])
    day, truth = made(spark, loaded, DAY, accept=()), pd.read_parquet(tmp_path / f"truth/dt={DAY}")
    first = truth[~truth["repeat"]]
    keys = zip(first.user_id, first.article_id, first.impression_time, strict=True)  # these logs have no requests
    ids = [impression_id(None, user, article, int(time.timestamp()) * 10**6) for user, article, time in keys]
    first = first.set_index(pd.Index(ids))
    clicked = (first.clicked & (first.click_delay_s <= 1800)).astype(int)
    assert day.manifest.accounting["impressions"] == len(truth)
    assert day.manifest.accounting["repeated"] == truth["repeat"].sum()
    assert day.manifest.label_sum("clicked") == clicked.sum()
    samples = day.frame.set_index("impression_id")
    assert samples.clicked.to_dict() == clicked.to_dict()
    assert samples.position.to_dict() == first.position.to_dict()


@pytest.mark.thorough
def test_a_day_whose_label_windows_reach_into_missing_logs_is_not_mature(spark: SparkSession, tmp_path: Path) -> None:
    path = write_days(tmp_path, DAY, 2)

    def mature(now: datetime, *changes: str) -> bool:
        config = load_config(path, ["timezone=Asia/Shanghai", *changes]).config
        return planning.labels_are_mature(Inputs.read(spark, config, DAY), DAY, now)

    later = datetime(2019, 7, 1, tzinfo=UTC)
    assert mature(later)
    assert not mature(later, "sources.log.days_after=2")
    # 2019-06-05 ends at 16:00 UTC and the window takes an hour.
    assert not mature(datetime(2019, 6, 5, 16, 59, tzinfo=UTC))
    assert mature(datetime(2019, 6, 5, 17, 0, tzinfo=UTC))


@pytest.mark.slow
def test_names_of_a_configuration_never_meet_names_of_the_job(spark: SparkSession, tmp_path: Path) -> None:
    names = ["action", "dropped", "is_action", "key", "moment", "alone", "left", "row", "best", "payload"]
    columns = [f"impressions.columns.{name}=position" for name in names]
    features = [f"features.{name}={{from: impression.{name}, dtype: int64}}" for name in names]
    features += ["features.split={from: impression.position, dtype: int64}"]
    found = made(spark, open_bandit(tmp_path, *columns, *features), TUESDAY).frame
    assert all((found[name] == found.position).all() for name in [*names, "split"])


TUTORIAL_LOGS = PROJECT.parent / "shared/data/toutiao_logs"


@pytest.mark.slow
@pytest.mark.skipif(not TUTORIAL_LOGS.is_dir(), reason="the tutorial's logs are not part of the project")
def test_every_exposure_of_the_tutorials_logs_is_accounted_for(spark: SparkSession, tmp_path: Path) -> None:
    environ = {"TOUTIAO_LOGS": str(TUTORIAL_LOGS)}
    loaded = load_config(PROJECT / "conf/toutiao.yaml", [f"output.path={tmp_path}"], environ)
    week = [job.run(spark, loaded, date(2019, 3, day)).manifest for day in range(12, 18)]
    assert sum(m.accounting["impressions"] for m in week) == sum(m.records for m in week) == 2_536
    # Each run reads three days before its own and one after: two lines are torn on the 16th and two on the 17th.
    assert [m.inputs["actions"]["malformed"] for m in week] == [0, 0, 0, 2, 4, 4]
    # Of 720 clicks one follows an exposure of the same user and article within two hours.
    assert [m.labels["clicked"]["actions"] for m in week] == [120] * 6
    assert [m.labels["clicked"]["orphans"] for m in week] == [120, 120, 120, 120, 120, 119]
    assert [m.label_sum("clicked") for m in week] == [0, 0, 0, 0, 0, 1]


def test_values_of_the_environment_that_spark_would_log_are_warned_of_by_name() -> None:
    inputs = ["sources.log.path='${LOGS}'", "impressions.where=token = '${WORD}'"]
    loaded = load_config(PROJECT / "conf/open_bandit.yaml", inputs, {"LOGS": "logs", "WORD": "hush"})
    session, told = MagicMock(), Told()
    for enabled in ("false", "true"):
        session.sparkContext.getConf().get.side_effect = {"spark.eventLog.enabled": enabled}.get
        planning.warn_of_event_log(session, loaded, told)
    (warning,) = told.warnings
    assert "will contain the values of ${LOGS}, ${WORD}" in warning
    assert "hush" not in warning
