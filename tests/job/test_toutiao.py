"""conf/toutiao.yaml and conf/toutiao_legacy_121.yaml on one tiny day of logs and feature tables."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from tests.support.project import PROJECT
from tests.support.whole_runs import Made, Told, made

CONF = PROJECT / "conf"
DAY = date(2019, 3, 13)  # a Wednesday
SHANGHAI = timezone(timedelta(hours=8))
NIGHT, NOON = datetime(2019, 3, 13, 3, tzinfo=SHANGHAI), datetime(2019, 3, 13, 12, tzinfo=SHANGHAI)

VECTOR = [i / 8 for i in range(100)]
TWELVE = [0.1, 1.2, 0.3, 1.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.4, 1.1, 0.2]
TEN_GREATEST = [1.2, 1.1, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
TABLES = ("article_vector", "article_profile", "ctr_feature_user")

pytestmark = pytest.mark.slow


def action(time: str, kind: str, user: str, article: str, channel: int) -> str:
    said = {"action": kind, "userId": user, "articleId": article, "algorithmCombine": "C2"}
    return json.dumps({"actionTime": time, "readTime": "", "channelId": channel, "param": said}) + "\n"


def write_logs(folder: Path) -> None:
    """User 2 clicked article 30, then 10, then is shown both 10 and 11, and clicks 11; user 3 and article 12 are unknown."""
    for day in ("2019-03-12", "2019-03-13"):
        (folder / "user_action" / day).mkdir(parents=True)
    (folder / "user_action/2019-03-12/FlumeData.1").write_text(action("2019-03-12 20:00:00", "click", "2", "30", 7))
    lines = [
        action("2019-03-13 09:00:00", "click", "2", "10", 25),
        action("2019-03-13 10:15:00", "exposure", "2", "[10, 11]", 0),
        action("2019-03-13 10:15:30", "click", "2", "11", 3),
        action("2019-03-13 10:20:00", "exposure", "3", "[12]", 0),
    ]
    (folder / "user_action/2019-03-13/FlumeData.2").write_text("".join(lines))
    (folder / "news_article_basic.txt").write_text("10,1,25,a,1,2019/1/10 17:44\n11,1,3,b,1,2019/1/10 17:44\n")
    (folder / "user_profile.txt").write_text(
        "2,true,1990-03-13,n,2019-01-10 17:44:32.0,2019-01-10 17:44:32.0,1,null,null,null,null,null,h1,null\n"
    )


def write_tables(folder: Path) -> None:
    """Feature tables, each with a row from before the impressions and one of noon, which they must not see."""
    words = {f"w{place:02d}": weight for place, weight in enumerate(TWELVE)}
    keywords = pa.map_(pa.string(), pa.float64())
    weights = pa.map_(pa.int32(), pa.list_(pa.float64()))
    by_channel = {25: [0.5, 3.0, 1.0], 3: TWELVE}
    of_articles = [[("w02", 0.5), ("w01", 2.0), ("flume", 1.25)], list(words.items()), [("late", 9.0)]]
    tables = {
        "article_vector": {
            "article_id": [10, 10],
            "channel_id": pa.array([25, 25], pa.int32()),
            "articlevector": [VECTOR, [9.0] * 100],
            "trained_at": [NIGHT, NOON],
        },
        "article_profile": {
            "article_id": [10, 11, 11],
            "channel_id": pa.array([25, 3, 3], pa.int32()),
            "keywords": pa.array(of_articles, keywords),
            "topics": [["tf"], ["w01"], ["late"]],
            "published_at": [NIGHT, NIGHT, NOON],
        },
        "ctr_feature_user": {
            "user_id": [2, 2],
            "weights": pa.array([list(by_channel.items()), [(25, [9.0]), (3, [9.0])]], weights),
            "updated_at": [NIGHT, NOON],
        },
    }
    for name, columns in tables.items():
        (folder / name).mkdir()
        pq.write_table(pa.table(columns), folder / name / "part-00000.parquet")


def day_of(spark: SparkSession, logs: Path, out: Path, file: str, *overrides: str) -> tuple[Made, list[str]]:
    """A run of the day, and what it warned of its sources; so few samples make the gate warn, too."""
    told = Told()
    changes = [f"output.path={out}", "output.partitions=1", *overrides]
    loaded = load_config(CONF / file, changes, {"TOUTIAO_LOGS": str(logs)})
    day = made(spark, loaded, DAY, accept=(), reporter=told)
    return day, [text for text in told.warnings if text.startswith("sources.")]


def by_article(day: Made) -> dict[str, dict[str, Any]]:
    """By article: those of user 2, who is known, by their place in the list, and the one of user 3."""
    articles = {(1, 0): "10", (1, 1): "11", (0, 0): "12"}
    return {articles[row["user_known"], row["position"]]: row for row in day.samples}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toutiao")
    write_logs(folder)
    write_tables(folder)
    return folder


@pytest.fixture(scope="module")
def modern(spark: SparkSession, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The samples of conf/toutiao.yaml, where all tables are there."""
    out = tmp_path_factory.mktemp("modern")
    day, warnings = day_of(spark, logs, out, "toutiao.yaml")
    assert warnings == []
    assert not any("absent" in counted for counted in day.manifest.inputs.values())
    return by_article(day)


def some(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: np.asarray(row[name]).tolist() for name in names}


def test_the_channel_is_that_of_the_article_and_the_vector_the_one_that_was_trained_before(
    modern: dict[str, dict[str, Any]],
) -> None:
    assert some(modern["10"], "vector", "vector_known") == {"vector": VECTOR, "vector_known": 1}
    assert some(modern["11"], "vector", "vector_known") == {"vector": [0.0] * 100, "vector_known": 0}
    assert {article: row["channel_id"] for article, row in modern.items()} == {"10": 25, "11": 3, "12": 0}


def test_weights_are_those_of_the_channel_and_the_article_greatest_first_and_keywords_stand_beside_them(
    modern: dict[str, dict[str, Any]],
) -> None:
    for name, few in (("user_weights", [3.0, 1.0, 0.5]), ("article_weights", [2.0, 1.25, 0.5])):
        assert np.asarray(modern["10"][name]).tolist() == few + [0.0] * 7
        assert np.asarray(modern["11"][name]) == pytest.approx(TEN_GREATEST, rel=1e-7)
        assert np.asarray(modern["12"][name]).tolist() == [0.0] * 10
    few, many = (np.asarray(modern[article]["article_keywords"]).tolist() for article in ("10", "11"))
    assert len({*few[:3]}) == 3
    assert few[3:] == [0] * 7
    # The words w01 and w02 weigh 2.0 and 0.5 in article 10, and 1.2 and 0.3 in article 11.
    assert (few[0], few[2]) == (many[0], many[9])
    assert len({*many, 0}) == 11


def test_the_history_holds_the_last_clicks_with_the_ids_of_articles(modern: dict[str, dict[str, Any]]) -> None:
    row = modern["10"]
    (own,) = np.asarray(row["article"]).tolist()
    first, second, *others = np.asarray(row["recent_articles"]).tolist()
    assert first == own  # article 10 was clicked before it was shown again
    assert second not in (0, own)
    assert others == [0] * 18
    assert some(row, "recent_ages_s", "recent_channels", "recent_clicks") == {
        "recent_ages_s": [4500.0, 51300.0] + [-1.0] * 18,
        "recent_channels": [25, 7] + [0] * 18,
        "recent_clicks": 2,
    }
    assert np.asarray(modern["12"]["recent_articles"]).tolist() == [0] * 20


def test_context_user_and_labels_are_there(modern: dict[str, dict[str, Any]]) -> None:
    assert some(modern["11"], "position", "hour", "hour_of_week", "weekend", "gender", "age", "user_known") == {
        "position": 1,
        "hour": 10,
        "hour_of_week": 58,
        "weekend": 0,
        "gender": 1,
        "age": pytest.approx(29.0, abs=0.01),
        "user_known": 1,
    }
    assert some(modern["12"], "gender", "age") == {"gender": 0, "age": 0.0}
    # The hour is the same, so the cross tells the channels apart.
    assert len({row["channel_hour"] for row in modern.values()}) == 3
    assert len({row["algorithm"] for row in modern.values()}) == 1
    labels = [some(row, "clicked", "collected", "shared", "read_ms") for row in modern.values()]
    assert sum(row["clicked"] for row in labels) == modern["11"]["clicked"] == 1
    assert {(row["collected"], row["shared"]) for row in labels} == {(0, 0)}


def test_tables_that_are_not_there_are_told_and_give_defaults(spark: SparkSession, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    logs = tmp_path / "logs"
    day, warnings = day_of(spark, logs, tmp_path / "out", "toutiao.yaml")
    absent = "sources.{0}: there is no {1}/{0}; the source is optional and is read as empty."
    assert warnings == [absent.format(table, logs) for table in TABLES]
    assert [name for name, counted in day.manifest.inputs.items() if counted.get("absent")] == list(TABLES)
    assert day.manifest.records == 3
    found = some(by_article(day)["10"], "channel_id", "recent_clicks", "article_keywords", "vector_known")
    assert found == {"channel_id": 25, "recent_clicks": 2, "article_keywords": [0] * 10, "vector_known": 0}


def old_records(day: Made) -> dict[int, tuple[list[float], int]]:
    """What the old readers parse: by channel, the 121 numbers and the label."""
    import tensorflow as tf

    old = {"feature": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    rows = {}
    for record in tf.data.TFRecordDataset([str(day.output / shard.path) for shard in day.manifest.shards]):
        assert {*tf.train.Example.FromString(record.numpy()).features.feature} == {"feature", "label"}
        parsed = tf.io.parse_single_example(record, old)
        assert len(parsed["feature"].numpy()) == 968
        numbers = tf.io.decode_raw(parsed["feature"], tf.float64).numpy().tolist()
        rows[int(numbers[0])] = (numbers, int(parsed["label"].numpy()))
    return rows


def test_legacy_121_is_the_old_vector_with_the_ten_greatest(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    day, _ = day_of(spark, logs, tmp_path, "toutiao_legacy_121.yaml")
    assert old_records(day) == {
        25: ([25.0, *VECTOR, 3.0, 1.0, 0.5, *[0.0] * 7, 2.0, 1.25, 0.5, *[0.0] * 7], 0),
        3: ([3.0, *[0.0] * 100, *TEN_GREATEST, *TEN_GREATEST], 1),
        0: ([0.0] * 121, 0),
    }
    contract = json.loads((day.directory / "contract.json").read_text())
    decoded = {"decode": "decode_raw", "decoded_dtype": "float64", "decoded_shape": [121]}
    assert contract["parse"]["feature"] == {"kind": "FixedLenFeature", "shape": [], "dtype": "string", **decoded}
