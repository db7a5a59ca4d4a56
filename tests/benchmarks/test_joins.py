"""The as-of join against the best known other ways, and histories; measured in one run.

The sizes come from the environment:

- CTR_SAMPLES_BENCH_IMPRESSIONS (2,000,000) and CTR_SAMPLES_BENCH_FEATURES (600,000) rows are joined, with uniform keys and with
  one hot key that has 10 % of the impressions and 4 % of the rows;
- CTR_SAMPLES_BENCH_FEW (1,000,000) and CTR_SAMPLES_BENCH_MANY (10,000,000): impressions for the cost of a row;
- CTR_SAMPLES_BENCH_ACTIONS (10,000,000): actions for histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.histories import ITEM, KEY, REQUEST, TIME, HistoryPlan, join_history
from ctr_samples.samples.views.as_of.joining import join_by_broadcast, join_by_shuffle
from ctr_samples.samples.views.as_of.matching import AsOf
from ctr_samples.samples.views.as_of.planning import HotKeys, Join
from tests.support.figures import Figures, at_least, at_most, in_turns, size

IMPRESSIONS = size("IMPRESSIONS", 2_000_000, quick=20_000)
FEATURES = size("FEATURES", 600_000, quick=6000)
FEW = size("FEW", 1_000_000, quick=10_000)
MANY = size("MANY", 10_000_000, quick=100_000)
ACTIONS = size("ACTIONS", 10_000_000, quick=100_000)
ROUNDS = size("ROUNDS", 3, quick=2)

START = datetime(2019, 6, 5, tzinfo=UTC)
DAY_S = 86_400
TTL = timedelta(days=3)
HOW = AsOf("profile", ("user",), TTL)
HOT = HotKeys(("0",))
PARTITIONS = 8

Way = Callable[[DataFrame, DataFrame], DataFrame]


def number(salt: str, below: int) -> Column:
    """A number that depends on nothing but the row's id: every run has the same data."""
    return F.pmod(F.xxhash64(F.lit(salt), F.col("id")), F.lit(below))


def user(salt: str, users: int, hot_share: float) -> Column:
    return F.when(number(f"{salt} hot", 1000) < int(hot_share * 1000), F.lit(0)).otherwise(number(salt, users) + 1)


def instant(salt: str, first_s: int, last_s: int) -> Column:
    start = int(START.timestamp() * 1e6)
    return F.timestamp_micros(F.lit(start + first_s * 10**6) + number(salt, (last_s - first_s) * 1000) * 1000)


def shown(spark: SparkSession, rows: int, users: int, hot_share: float = 0) -> DataFrame:
    """Impressions of a day, of about 100 bytes."""
    own = F.struct(
        F.col("id").alias("impression_id"),
        instant("shown", 0, DAY_S).alias("impression_time"),
        user("shown by", users, hot_share).alias("user"),
        number("article", 50_000).alias("article"),
        F.lit(None).cast("string").alias(REQUEST),
    )
    return spark.range(0, rows, 1, 8).select(own.alias("impression"), (number("label", 10) == 0).alias("clicked"))


def known(spark: SparkSession, rows: int, users: int, hot_share: float = 0) -> DataFrame:
    """Feature rows of three days, ready to be joined."""
    at = instant("known", -3 * DAY_S, DAY_S)
    payload = F.struct(number("age", 90).alias("age"), (number("weight", 1000) / 1000.0).alias("weight"))
    return spark.range(0, rows, 1, 8).select(
        user("known of", users, hot_share).alias("key"),
        at.alias("event_time"),
        (at + F.lit(timedelta(minutes=10))).alias("available_time"),
        payload.alias("payload"),
    )


def by_last(left: DataFrame, right: DataFrame) -> DataFrame:
    """Union and ``last(struct, ignorenulls)``: fast, but a late correction hides a newer fact, and ties are left to chance."""
    rows = left.select(
        F.col("impression.user").alias("key"),
        F.col("impression.impression_time").alias("moment"),
        F.struct("*").alias("left"),
        F.lit(None).cast(right.select(F.struct("event_time", "payload").alias("r")).schema["r"].dataType).alias("row"),
    ).unionByName(
        right.select("key", F.col("available_time").alias("moment"), F.struct("event_time", "payload").alias("row")),
        allowMissingColumns=True,
    )
    so_far = (
        Window.partitionBy("key").orderBy("moment", F.col("left").isNotNull()).rowsBetween(Window.unboundedPreceding, 0)
    )
    best = rows.withColumn("row", F.last("row", ignorenulls=True).over(so_far)).where(F.col("left").isNotNull())
    fresh = F.col("row.event_time") >= F.col("moment") - F.lit(TTL)
    return best.select("left.*", F.when(fresh, F.col("row.payload")).alias("profile"))


def by_lead(left: DataFrame, right: DataFrame) -> DataFrame:
    """Each row is valid until the next one of its key: an equi-join on the key with a condition on the interval."""
    following = F.lead("available_time").over(Window.partitionBy("key").orderBy("available_time"))
    spans = right.select("key", "available_time", following.alias("until"), "event_time", "payload")
    time_ = F.col("impression.impression_time")
    holds = (time_ >= F.col("available_time")) & (F.col("until").isNull() | (time_ < F.col("until")))
    joined = left.join(spans, (F.col("impression.user") == F.col("key")) & holds, how="left")
    fresh = F.col("event_time") >= time_ - F.lit(TTL)
    return joined.select(*left.columns, F.when(fresh, F.col("payload")).alias("profile"))


def by_row_number(left: DataFrame, right: DataFrame) -> DataFrame:
    """All visible rows of the key, of which the last is numbered 1, joined back: what people write by hand."""
    time_ = F.col("impression.impression_time")
    visible = (
        (F.col("impression.user") == F.col("key"))
        & (F.col("event_time") <= time_)
        & (F.col("available_time") <= time_)
        & (F.col("event_time") >= time_ - F.lit(TTL))
    )
    all_visible = left.join(right, visible, how="inner").select(
        "impression.impression_id", "payload", "event_time", "available_time"
    )
    newest = Window.partitionBy("impression_id").orderBy(F.col("event_time").desc(), F.col("available_time").desc())
    first = all_visible.withColumn("n", F.row_number().over(newest)).where("n = 1").select("impression_id", "payload")
    rows = left.withColumn("id", F.col("impression.impression_id"))
    return rows.join(first, F.col("id") == F.col("impression_id"), how="left").select(
        *left.columns, F.col("payload").alias("profile")
    )


def by_feast(left: DataFrame, right: DataFrame) -> DataFrame:
    """The steps of Feast's point-in-time query for Spark, of a view with a time at which its rows were created.

    The distinct entities and times, under an id that is the text of both; all rows of each in its ttl; of those the last
    creation of each time; of those the last time; the rows again by that; the impressions by the id. It knows one clock to
    join by, here the one at which rows were known.
    """
    time_, row_id = F.col("impression.impression_time"), ["row_id"]
    with_id = left.withColumn("row_id", F.concat(F.col("impression.user").cast("string"), time_.cast("string")))
    entities = with_id.select(F.col("impression.user").alias("entity"), time_.alias("at"), *row_id).distinct()
    bounds = entities.agg(F.max("at").alias("last"), (F.min("at") - F.lit(TTL)).alias("first"))
    created = right.select(
        "key", F.col("available_time").alias("event"), F.col("event_time").alias("created"), "payload"
    )
    relevant = created.join(bounds, (F.col("event") <= F.col("last")) & (F.col("event") >= F.col("first")))
    ttl = TTL - timedelta(minutes=10)  # counted from when a row was known
    in_ttl = (F.col("event") <= F.col("at")) & (F.col("event") >= F.col("at") - F.lit(ttl))
    base = relevant.join(entities, (F.col("key") == F.col("entity")) & in_ttl).select(
        *row_id, "event", "created", "payload"
    )
    last_created = base.groupBy("row_id", "event").agg(F.max("created").alias("created"))
    latest = (
        base.join(last_created, ["row_id", "event", "created"])
        .groupBy("row_id")
        .agg(F.max("event").alias("event"), F.max("created").alias("created"))
    )
    chosen = base.join(latest, ["row_id", "event", "created"]).select("row_id", "payload")
    return with_id.join(chosen, "row_id", how="left").select(*left.columns, F.col("payload").alias("profile"))


OURS: dict[str, Way] = {
    "shuffle": lambda left, right: join_by_shuffle(Stage.of(left), [Join(HOW, right)], PARTITIONS).rows(),
    "shuffle, hot keys": lambda left, right: join_by_shuffle(
        Stage.of(left), [Join(HOW, right)], PARTITIONS, HOT
    ).rows(),
    "broadcast": lambda left, right: join_by_broadcast(Stage.of(left), [Join(HOW, right)]).rows(),
}
FEAST = "Feast's query"
OTHERS: dict[str, Way] = {
    "last(struct)": by_last,
    "lead() intervals": by_lead,
    "row_number()": by_row_number,
    FEAST: by_feast,
}


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def run(way: Way, left: DataFrame, right: DataFrame) -> None:
    noop(way(left, right))


def cached(frame: DataFrame) -> DataFrame:
    held = frame.persist()
    held.count()
    return held


def test_the_as_of_join_keeps_up_with_the_best_way_known(figures: Figures, spark: SparkSession) -> None:
    users = FEATURES // 6
    times = {}
    for shape, (of_shown, of_known) in {"uniform": (0.0, 0.0), "hot": (0.1, 0.04)}.items():
        left, right = (
            cached(shown(spark, IMPRESSIONS, users, of_shown)),
            cached(known(spark, FEATURES, users, of_known)),
        )
        # These make a row of each pair that is visible, of a hot key in the full size two thousand million.
        left_out = {FEAST, "row_number()"} if IMPRESSIONS * of_shown * FEATURES * of_known > 1e8 else set()
        ways = {name: way for name, way in {**OURS, **OTHERS}.items() if name not in left_out}
        seconds = times[shape] = in_turns({name: partial(run, way, left, right) for name, way in ways.items()}, ROUNDS)
        what = f"{shape} keys"
        for name, some in seconds.items():
            figures.add(f"{what}, {IMPRESSIONS:,} impressions, {FEATURES:,} rows: {name}", some, "s")
        best = seconds[quickest(seconds, [name for name in OTHERS if name != FEAST])]
        own = seconds[quickest(seconds, OURS)]
        figures.add(f"{what}, the best of ours, time vs. the best known", own / best, "x", at_most(1.2))
        figures.add(f"{what}, shuffle, hot keys, time vs. the best known", seconds["shuffle, hot keys"] / best, "x")
        if FEAST in seconds:
            figures.add(f"{what}, the best of ours, speed vs. {FEAST}", seconds[FEAST] / own, "x", at_least(8))
        left.unpersist()
        right.unpersist()
    ratio = times["hot"]["shuffle, hot keys"] / times["uniform"]["shuffle"]
    figures.add("shuffle, time of hot keys vs. uniform keys", ratio, "x", at_most(1.5))


def quickest(seconds: dict[str, np.ndarray], names: Iterable[str]) -> str:
    """The name with the smallest median, of those that were measured."""
    return min((name for name in names if name in seconds), key=lambda name: np.median(seconds[name]))


def test_the_ways_agree_on_how_many_impressions_find_a_row(spark: SparkSession) -> None:
    left, right = shown(spark, 20_000, 1000), known(spark, 6000, 1000)
    found = {
        name: way(left, right).where("profile.age is not null").count() for name, way in {**OURS, **OTHERS}.items()
    }
    # All rows are known ten minutes after they became true, so even those ways are right that know only one clock.
    assert len(set(found.values())) == 1, found


def test_a_row_costs_the_same_at_any_size(figures: Figures, spark: SparkSession) -> None:
    for rows in (FEW, MANY):
        users = rows // 20
        left, right = shown(spark, rows, users), known(spark, rows * 3 // 10, users)
        (seconds,) = in_turns({"shuffle": partial(run, OURS["shuffle"], left, right)}, ROUNDS).values()
        figures.add(f"shuffle, {rows:,} impressions", seconds, "s")
        figures.add(f"shuffle, {rows:,} impressions, for each", seconds / rows * 1e6, "µs")


def test_views_on_several_keys(figures: Figures, spark: SparkSession) -> None:
    rows = FEW
    keys = [f"key_{n}" for n in range(8)]
    wide = shown(spark, rows, rows // 20)
    made = [number(key, rows // 20).alias(key) for key in keys]
    with_id = wide.withColumn("id", F.col("impression.impression_id"))
    left = cached(with_id.select(F.struct("impression.*", *made).alias("impression"), "clicked"))
    right = known(spark, rows // 10, rows // 20)

    def join(count: int) -> None:
        joined = Stage.of(left)
        for key in keys[:count]:
            joined = join_by_shuffle(joined, [Join(AsOf(f"of_{key}", (key,), TTL), right)], PARTITIONS)
        noop(joined.rows())

    for count, seconds in in_turns({str(count): partial(join, count) for count in (2, 4, 8)}, ROUNDS).items():
        what = f"{rows:,} impressions, {count} views on keys of their own"
        figures.add(what, seconds, "s")
        figures.add(f"{what}, for each view", seconds / int(count), "s")
    left.unpersist()


@pytest.mark.parametrize("hot_share", [0.0, 0.04])
def test_histories(figures: Figures, spark: SparkSession, hot_share: float) -> None:
    users, rows = max(ACTIONS // 20, 1), ACTIONS // 5
    actions = cached(
        spark.range(0, ACTIONS, 1, 8).select(
            user("acts", users, hot_share).alias(KEY),
            instant("acted", -6 * DAY_S, DAY_S).alias(TIME),
            number("acted on", 50_000).alias(ITEM),
            F.lit(None).cast("string").alias(REQUEST),
        )
    )
    left = cached(shown(spark, rows, users, hot_share))
    plan = HistoryPlan("clicks", 20, timedelta(days=7))
    ways = {
        "history": lambda: noop(join_history(Stage.of(left), actions, plan, PARTITIONS).rows()),
        "one shuffle and sort of both": lambda: noop(
            left.select(
                F.col("impression.user").alias(KEY),
                F.col("impression.impression_time").alias(TIME),
                F.struct("*").alias("left"),
            )
            .unionByName(actions, allowMissingColumns=True)
            .repartition(KEY)
            .sortWithinPartitions(KEY, TIME)
        ),
    }
    seconds = in_turns(ways, ROUNDS)
    what = f"the last 20 of {ACTIONS:,} actions, {hot_share:.0%} of one user"
    for name, some in seconds.items():
        figures.add(f"{what}: {name}", some, "s")
        figures.add(f"{what}: {name}, a row", some / (ACTIONS + rows) * 1e6, "µs")
    ratio = seconds["history"] / seconds["one shuffle and sort of both"]
    figures.add(f"{what}, time vs. one shuffle and sort", ratio, "x")
    actions.unpersist()
    left.unpersist()
