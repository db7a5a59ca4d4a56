"""A day with 25 features, three views and 24 hours, and the day before it: its metrics and its manifest."""

from __future__ import annotations

import math
from typing import Any

from ctr_samples.quality.feature_facts import Curve, Facts, FeatureFacts, Lengths, TopValue
from ctr_samples.quality.metrics import (
    METRICS_FORMAT,
    Actions,
    Baseline,
    ClickRate,
    Clicks,
    Duplicates,
    Finding,
    Funnel,
    Generation,
    Gzip,
    HourCounts,
    Label,
    LabelSplit,
    Metrics,
    Reference,
    Requests,
    Shards,
    Spread,
    Standing,
    User,
    Users,
    verdict_of,
)
from ctr_samples.shards import Manifest, Shard
from tests.support.manifests import manifest as small_manifest
from tests.support.measured_day import column

HOURLY = [31, 22, 15, 11, 9, 12, 25, 48, 66, 70, 72, 75, 88, 84, 76, 74, 78, 85, 97, 112, 126, 131, 103, 62]
"""Impressions of each hour, in thousands."""
SHARES = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1)

NUMBERS = {
    "user_age_days": (260.0, 190.0, 0.02),
    "user_clicks_7d": (9.5, 11.0, 0.31),
    "user_click_rate_30d": (0.034, 0.021, 0.08),
    "user_sessions_24h": (3.1, 2.4, 0.03),
    "user_dwell_mean_s": (41.0, 33.0, 0.05),
    "article_age_h": (17.5, 22.0, 0.04),
    "article_clicks_1h": (420.0, 990.0, 0.12),
    "article_clicks_24h": (6100.0, 9800.0, 0.03),
    "article_impressions_24h": (180000.0, 240000.0, 0.02),
    "article_click_rate_24h": (0.036, 0.015, 0.02),
    "article_title_length": (27.0, 8.0, 0.01),
    "article_read_s_p50": (38.0, 19.0, 0.03),
    "author_followers": (5300.0, 41000.0, 0.06),
    "author_click_rate_7d": (0.033, 0.012, 0.02),
    "hour_sin": (0.0, 0.7, 0.01),
    "hour_cos": (0.0, 0.7, 0.01),
}
IDS: dict[str, tuple[list[Any], float]] = {
    "channel": ([10, 2, 7, 1, 21, 4, 9], 0.04),
    "city": ([310000, 110000, 440100, 440300, 330100, 510100], 0.03),
    "device": (["android", "ios", "web", "tablet"], 0.02),
    "app_version": (["9.4.1", "9.4.0", "9.3.7", "9.2.0", "8.9.9"], 0.42),
    "network": (["wifi", "5g", "4g", "unknown"], 0.01),
    "weekday": ([3], 1.0),
    "article_author": ([88213, 1043, 77120, 4, 90011, 61, 13370], 0.09),
}


def numbers(mean: float, spread: float, rows: int, *, skewed: bool, lengths: Lengths | None = None) -> Facts:
    """A column of numbers, of a normal or a much skewed distribution, described at the usual quantiles."""
    normal = (-3.2, -2.33, -1.64, -1.28, -0.67, 0.0, 0.67, 1.28, 1.64, 2.33, 3.2)
    fine = [-3.2 + 0.16 * step for step in range(41)]
    at, xs = (
        [round(mean * 0.4 * math.exp(1.6 * z) if skewed else mean + spread * z, 4) for z in some]
        for some in (normal, fine)
    )
    below = (*(round((1 + math.erf(z / math.sqrt(2))) / 2, 5) for z in fine[:-1]), 1.0)
    return column(
        rows,
        rows // 97,
        zeros=rows // 40 if skewed else 0,
        min=at[0],
        max=at[-1],
        mean=mean,
        std=spread,
        lengths=lengths,
        distinct=round(rows / 11.3, 1),
        quantiles={f"{share:g}": x for share, x in zip(SHARES, at, strict=True)},
        cdf=Curve(tuple(xs), below, below),
        looked_at=100_000,
        values_looked_at=100_000,
        auc=0.5 + spread / (mean + spread + 1) / 12,
    )


def values(tops: list[Any], rows: int, tilt: float, lengths: Lengths | None = None) -> Facts:
    """A column of ids or texts, described by its most frequent values."""
    shares = [0.62 / (1 + at * (0.8 + tilt)) / 1.8 for at in range(len(tops))]
    frequent = tuple(
        TopValue(value, round(share, 5), round(0.03 + 0.004 * at, 5))
        for at, (value, share) in enumerate(zip(tops, shares, strict=True))
    )
    many, distinct = 100_000, 4.0 + len(tops) * 31
    looked_at = {"looked_at": many, "values_looked_at": many}
    return column(rows, rows // 310, lengths=lengths, distinct=distinct, top=frequent, auc=0.534, **looked_at)


def features(scale: float) -> dict[str, FeatureFacts]:
    """The 25 features; ``scale`` moves some of them."""
    train, evaluated = 1_021_870, 113_410
    found: dict[str, FeatureFacts] = {}
    for name, (mean, spread, drift) in NUMBERS.items():
        skewed = any(part in name for part in ("clicks", "impressions", "followers"))
        moved = mean * (1 + (scale - 1) * drift * 3)
        splits = {
            "train": numbers(moved, spread, train, skewed=skewed),
            "eval": numbers(moved * 1.004, spread, evaluated, skewed=skewed),
        }
        found[name] = FeatureFacts("number", "float32", (), splits)
    for name, (tops, drift) in IDS.items():
        ordered = tops[1:] + tops[:1] if scale > 1 and drift > 0.3 and len(tops) > 1 else tops
        splits = {"train": values(ordered, train, 0), "eval": values(ordered, evaluated, 0.05)}
        is_text = isinstance(tops[0], str)
        found[name] = FeatureFacts("text" if is_text else "id", "bytes" if is_text else "int64", (), splits)
    vector = numbers(0.002, 0.11, train * 100, skewed=False, lengths=Lengths(100, 100, 100.0))
    found["article_vector"] = FeatureFacts("number", "float32", (100,), {"train": vector})
    history = values([88, 13, 411, 9, 77], train * 9, 0, Lengths(0, 20, 8.7))
    found["history_articles"] = FeatureFacts("id", "int64", None, {"train": history})
    return found


def hours(rate: float, dip: float) -> tuple[HourCounts, ...]:
    """The 24 hours; ``dip`` is how much lower the evening's rate is."""
    return tuple(
        HourCounts(
            thousands * 700,
            round(thousands * 700 * rate * (1 + 0.2 * math.sin((hour - 14) / 3.8)) * (dip if hour > 18 else 1)),
            hour=hour,
        )
        for hour, thousands in enumerate(HOURLY)
    )


def metrics(day: str = "2019-06-05", *, generation: int = 3, calm: bool = False) -> Metrics:
    """What is measured of a day: one check failed, one that failed was accepted and two warned, unless it is ``calm``."""
    scale, rate, dip = (1.0, 0.0341, 1.0) if calm else (1.4, 0.0298, 0.62)
    checks = (*passed_checks(), *(() if calm else failed_checks()))
    return Metrics(
        format=METRICS_FORMAT,
        name="toutiao_ctr",
        run_date=day,
        generation=generation,
        run_id="20190606T020000-1a2b3c4d",
        created_at="2019-06-06T02:07:41+00:00",
        seconds=431.2,
        contract="c0ffee",
        label_mature=False,
        samples={"train": 1_021_870, "eval": 113_410},
        accounting={
            "impressions": 1_562_000,
            "samples": 1_135_280,
            "no_time": 0,
            "no_article": 41,
            "repeated": 96_412,
            "skip_above": 0,
            "down_sampled": 330_267,
        },
        shards=Shards(
            48,
            bytes=Spread(741_337_840, 9_120_334, 15_540_021, 16_777_102),
            records=Spread(1_135_280, 13_960, 23_790, 25_702),
        ),
        labels={
            "clicked": Label(
                binary=True,
                splits={
                    "train": LabelSplit(1_021_870, 30_450, 0.029798, 0.17),
                    "eval": LabelSplit(113_410, 3_391, 0.0299, 0.17),
                },
            ),
            "read_ms": Label(
                binary=False,
                splits={
                    "train": LabelSplit(30_450, 1_171_309_921.0, 38_466.66, 21_000.0),
                    "eval": LabelSplit(3_391, 129_400_112.0, 38_160.0, 21_000.0),
                },
            ),
        },
        actions={"clicked": Actions(39_120, 811, 0), "read_ms": Actions(35_001, 120, 0)},
        click_rate=ClickRate(
            "clicked",
            {
                "train": Clicks(1_021_870, round(1_021_870 * rate)),
                "eval": Clicks(113_410, round(113_410 * rate)),
            },
            hours(rate, dip),
        ),
        features=features(scale),
        views={
            "user_profile": view(1_101_221, 0.97 if calm else 0.912, (1, 600, 7_320, 61_000, 2_590_011), unusable=12),
            "article_vector": view(1_134_980, 0.999736, (3_600, 9_000, 43_100, 82_800, 86_399)),
            "article_counts": view(1_120_000, 0.98654, (60, 120, 301, 3_590, 86_000), implausible=3),
        },
        users=Users(
            100_000,
            (
                User("1105045287866466304", 0.0141, 16_007),
                User("1115629498121846784", 0.0023, 2_611),
                User("33", 0.0011, 1_249),
                User("2", 0.0009, 1_022),
            ),
        ),
        duplicates=Duplicates(0, 100_000, identical=0.0012, conflicting=0.0004),
        baseline=Baseline("clicked", 0.0298, 0.9702, 0.1343),
        funnels={"read_ms": Funnel("clicked", 900, 12)},
        requests=Requests(("request", "user"), False, 41_216, 4096, 9.7, 8.0, 212, 0.64, Gzip(8_388_608, 0.58, 0.21)),
        checks=checks,
        reference=Reference(Generation("2019-06-04", 1), Generation("2019-05-29", 2)),
        drift={
            **{name: drift for name, (_, _, drift) in NUMBERS.items()},
            **{name: drift for name, (_, drift) in IDS.items() if name != "weekday"},
        },
        verdict=verdict_of(checks),
        accepted=() if calm else ("view_match_rate",),
    )


def view(matched: int, rate: float, ages: tuple[int, ...], **counted: int) -> Any:
    names = ("age_s_min", "age_s_p10", "age_s_median", "age_s_p90", "age_s_max")
    return {"matched": matched, "match_rate": rate, **dict(zip(names, ages, strict=True)), **counted, "canaries": 256}


def failed_checks() -> tuple[Finding, ...]:
    clicks = (
        "The click rate of clicked is 2.98%, 12.6% below the 3.41% of 2019-06-04 and outside of the 3.17% to 3.72% that are "
        "allowed. From 19:00 on it is 38% lower: see whether clicks of the evening are late, then run the day again."
    )
    return (
        check("feature_drift", "user_clicks_7d", "warns", 0.31, "at most 0.3"),
        check("click_rate", "clicked", "blocks", 0.0298, "0.0317 to 0.0372", clicks),
        check("feature_drift", "app_version", "warns", 0.42, "at most 0.3"),
        check("view_match_rate", "user_profile", "accepted", 0.912, "at least 0.95"),
    )


def passed_checks() -> tuple[Finding, ...]:
    return tuple(
        check("feature_nulls", name, "passed", 0.0103, "at most 0.05", f"{name} is null in 1.03%.") for name in NUMBERS
    )


def check(
    name: str, subject: str, standing: Standing, value: float = 0, expected: str = "at most 1", sentence: str = "Well."
) -> Finding:
    return Finding(name, subject, standing, value, expected, sentence)


def manifest() -> Manifest:
    """The manifest of the day."""
    shards = tuple(
        Shard(
            f"dt=2019-06-05/data/20190606T020000-1a2b3c4d/{split}/part-{at:05d}-{at}-1a2b3c4d.tfrecord",
            split,
            partition=at,
            records=23_000 + at * 90,
            bytes=9_200_000 + round(at**0.5 * 1_100_000),
            crc32c=1,
        )
        for at in range(48)
        for split in (("eval",) if at % 10 == 0 else ("train",))
    )
    return small_manifest(
        name="toutiao_ctr",
        generation=3,
        run_id="20190606T020000-1a2b3c4d",
        parent="20190605T210000-00c0ffee",
        created_at="2019-06-06T02:07:41+00:00",
        fingerprint="6f1ed002ab5595859014ebf0951522d9a2f0b4cbaf4b4bd1b2b1f0f8a3c7e9d1",
        contract={"version": 1, "record": "example", "features": [], "fingerprint": "77c0ffee"},
        config=CONFIG,
        inputs={
            "actions": {
                "files": 3,
                "bytes": 1_204_003_111,
                "fingerprint": "0",
                "missing_days": [],
                "lines": 4_101_332,
                "malformed": 17,
                "repeated": 5,
            },
            "profiles": {"files": None, "bytes": None, "fingerprint": None, "missing_days": []},
            "vectors": {"files": 64, "bytes": 331_000_000, "fingerprint": "1", "missing_days": ["2019-06-01"]},
        },
        shards=shards,
        accounting={"impressions": 1_562_000, "samples": 1_135_280},
        labels={
            "clicked": {
                "actions": 39_120,
                "orphans": 811,
                "delays": {"10s": 21_004, "1m": 11_300, "10m": 5_100, "30m": 905},
                "flips": {"against": 2, "flipped_to_1": 310, "flipped_to_0": 2, "new": 0, "gone": 0},
            },
            "read_ms": {"actions": 35_001, "orphans": 120, "delays": {"1m": 20_000, "10m": 14_000, "2h": 881}},
        },
        label_mature=False,
        versions={"ctr_samples": "0.1.0", "python": "3.11.9", "pyspark": "4.3.0", "pyarrow": "21.0.0"},
        seconds=431.2,
        plan=(
            "user_profile: union and one window over user, 600,000 rows beside 1,562,000 impressions",
            "article_vector: broadcast of the latest snapshot, 2019-06-04",
            "article_counts: union and one window over article, heavy hitters carried in 8 buckets",
        ),
        sampling={"rate": 0.75},
    )


CONFIG: dict[str, Any] = {
    "name": "toutiao_ctr",
    "timezone": "Asia/Shanghai",
    "sources": {
        "actions": {"format": "json", "path": "logs/user_action/dt={date}", "days_before": 1, "days_after": 1},
        "profiles": {"format": "table", "table": "features.user_profile"},
        "vectors": {"format": "parquet", "path": "${FEATURES}/article_vector"},
    },
    "impressions": {"source": "actions", "where": "param.action = 'exposure'", "time": "actionTime", "dedup": "30s"},
    "labels": {"clicked": {"source": "actions", "where": "param.action = 'click'", "window": "30m"}},
    "features": {"channel": {"from": "article_vector.channel_id", "dtype": "int64", "default": 0}},
    "split": {"eval": 0.1, "by": "user"},
    "output": {"path": "samples/toutiao_ctr", "shard_size": "16MiB", "compression": "none"},
}
