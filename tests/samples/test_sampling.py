"""Splits and down-sampling: what goes where, what stays, and that neither depends on the run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, Sampling, Split, load_config
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import ConfigError, InputError, UsageError
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.columnar.stages import Stage, TaskCounts
from ctr_samples.samples.features.complete import weights_of
from ctr_samples.samples.features.row import SPLIT, SPLITS, WEIGHT, split_name
from ctr_samples.samples.period import Span
from ctr_samples.samples.sampling import (
    SAMPLED_OUT,
    DropSampledOut,
    is_sampled_out,
    rules_of,
    sample_again,
    sampling_facts,
    split_column,
)
from ctr_samples.sparksql.session import run_session
from ctr_samples.training.training_set import open_training_set
from tests.support.literal_frames import literal
from tests.support.open_bandit import TUESDAY, open_bandit
from tests.support.project import PROJECT
from tests.support.whole_runs import made

DAY = Span.of(TUESDAY, "UTC")


def config(**sections: Any) -> JobConfig:
    return open_bandit(Path("out")).config.model_copy(update=sections)


def shown(spark: SparkSession, rows: int) -> DataFrame:
    """Impressions of the ids 0 to ``rows``, a minute apart, of 50 users and 800 requests; every tenth is clicked."""
    time = F.timestamp_seconds(F.lit(int(DAY.start.timestamp())) + F.col("id") * 60)
    user = F.when(F.col("id") % 50 != 0, F.concat(F.lit("u"), F.col("id") % 50))
    request = (F.col("id") % 800).cast("string").alias("request")
    struct = F.struct(F.col("id").alias("impression_id"), time.alias("impression_time"), user.alias("user"), request)
    return spark.range(rows).select(struct.alias("impression"), F.expr("cast(id % 10 = 0 as bigint) clicked"))


SPLITS_OF = {
    "two": Split(eval=0.2),
    "three": Split(eval=0.2, test=0.05),
    "by user": Split(by="user", eval=0.3, test=0.3),
    "split": Split(eval=0.25),
}
SEVENTHS = "if(impression.impression_id % 7 = 0, 1, 0.2)"
RULES: dict[str, dict[str, Any]] = {
    "by user": {"rate": "case when clicked = 1 then 1 when impression.user = 'u7' then 0.02 else 0.5 end"},
    "halves": {"rate": "if(clicked = 1, 1, 0.5)"},
    "tenths": {"rate": "if(clicked = 1, 1, 0.1)"},
    "30 of each": {"cap": {"key": "user", "samples": 30}},
    "10 of each": {"cap": {"samples": 10}},
    "20 of each": {"cap": {"samples": 20}},
    "half of all": {"rate": "0.5"},
    "all at once": {"rate": "0.5", "cap": {"samples": 20}, "weight": "if(clicked = 1, 3, 1)"},
    "sevenths": {"rate": SEVENTHS},
    "20 by sevenths": {"rate": SEVENTHS, "cap": {"samples": 20}},
    "requests": {"rate": "if(clicked = 1, 1, 0.3)", "by": "request"},
}
"""Rules, all of them over the same impressions, of which a quarter is evaluated."""
WITHOUT_A_VALUE = {
    "if(clicked = 1, 1, 0)": "rate",
    "nullif(clicked, 0)": "rate",
    "if(clicked = 1, 1, -1)": "weight",
    "double('NaN')": "weight",
    "1e39": "weight",
}
"""Expressions that are no rate, or no weight, of some impressions."""


@pytest.fixture(scope="module")
def chosen(spark: SparkSession) -> pd.DataFrame:
    """8,000 impressions with their splits, and what each of the rules says of them."""
    rows = shown(spark, 8000)
    columns = [split_name(split_column(config(split=split), DAY)).alias(name) for name, split in SPLITS_OF.items()]
    requests = config(sampling=Sampling(negatives=0.3, by="request"), split=SPLITS_OF["split"])
    columns.append(is_sampled_out(requests).alias("lot of request"))
    for name, rules in RULES.items():
        marked = rules_of(config(sampling=Sampling.model_validate(rules), split=SPLITS_OF["split"]), DAY, rows)
        assert marked is not None
        rows = marked.withColumnsRenamed({SAMPLED_OUT: f"out {name}", WEIGHT: f"weight {name}"}).drop("_wrong")
    for number, (text, key) in enumerate(WITHOUT_A_VALUE.items()):
        marked = rules_of(config(sampling=Sampling.model_validate({key: text}), split=SPLITS_OF["split"]), DAY, rows)
        assert marked is not None
        rows = marked.withColumnRenamed("_wrong", f"wrong {number}").drop(SAMPLED_OUT, WEIGHT)
    of_rules = [f"{kind} {name}" for kind in ("out", "weight") for name in RULES]
    of_rules += [f"wrong {number}" for number in range(len(WITHOUT_A_VALUE))]
    return rows.select("impression.*", "clicked", *columns, *of_rules).toPandas()


def by(name: str, chosen: pd.DataFrame) -> pd.DataFrame:
    """What stays by rules in train, with its weight."""
    stays = chosen[~chosen[f"out {name}"] & (chosen.split == "train")]
    return stays.assign(weight=stays[f"weight {name}"])


def ids(name: str, chosen: pd.DataFrame) -> set[int]:
    return set(by(name, chosen).impression_id)


def test_a_third_split_takes_its_share_and_leaves_the_others_where_they_were(chosen: pd.DataFrame) -> None:
    assert ((chosen.two == "eval") == (chosen.three == "eval")).all()
    share = chosen.three.value_counts(normalize=True)
    assert share["eval"] == pytest.approx(0.2, abs=0.02)
    assert share["test"] == pytest.approx(0.05, abs=0.01)
    assert chosen[chosen.two == "eval"].impression_id.sort_values()[:6].tolist() == FIRST_OF_EVAL


FIRST_OF_EVAL = [2, 25, 26, 32, 37, 42]  # a change here moves every sample to another split


def test_samples_of_one_user_stay_together_and_those_of_nobody_do_not(chosen: pd.DataFrame) -> None:
    assert chosen[chosen.user.notna()].groupby("user")["by user"].nunique().max() == 1
    assert set(chosen[chosen.user.isna()]["by user"]) == {"train", "eval", "test"}


def test_the_last_hours_of_the_day_go_to_eval(spark: SparkSession) -> None:
    session = run_session(spark, "Europe/Stockholm")
    # On 2019-10-27 the clocks go back from 03:00 to 02:00: 20:00 is 19:00 UTC, and 02:30 comes at 00:30 UTC first.
    day = Span.of(date(2019, 10, 27), "Europe/Stockholm")
    times = ["00:29:59", "00:30:00", "18:59:59", "19:00:00"]
    rows = literal(session, [(i, f"2019-10-27 {t}Z") for i, t in enumerate(times)], "id int, at string")
    struct = F.struct(F.col("id").alias("impression_id"), F.col("at").cast("timestamp").alias("impression_time"))
    impressions = rows.select(struct.alias("impression"))
    expected = {
        "20:00": ["train", "train", "train", "eval"],
        "02:30": ["train", "eval", "eval", "eval"],
        "00:00": ["eval"] * 4,
    }
    columns = [
        split_name(
            split_column(config(split=Split(by="time", eval_from=start), timezone="Europe/Stockholm"), day)
        ).alias(start)
        for start in expected
    ]
    found = impressions.orderBy("impression.impression_id").select(columns).toPandas()
    assert {start: found[start].tolist() for start in expected} == expected


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"by": "time"}, "`by: time` needs `eval_from`, such as `eval_from: '20:00'`"),
        ({"eval_from": "20:00"}, "`eval_from` needs `by: time` or `by: request`; found `by: impression`"),
        ({"by": "time", "eval_from": "20:00", "eval": 0.1}, "without shares"),
        ({"by": "request", "eval_from": "20:00", "test": 0.1}, "without shares"),
        ({"by": "time", "eval_from": "8 pm"}, "String should match pattern"),
        ({"by": "time", "eval_from": "24:00"}, "String should match pattern"),
        ({"eval": 0.6, "test": 0.4}, "leave nothing to train on"),
    ],
)
def test_a_split_that_says_two_things_is_refused(split: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Split.model_validate(split)


TENTH = config(sampling=Sampling(negatives=0.1, salt="a"), split=Split(eval=0.25))


def kept(rows: DataFrame, job: JobConfig = TENTH) -> tuple[pd.DataFrame, dict[str, Any]]:
    """What stays, with split and weight, and what the manifest says of it."""
    tasks = TaskCounts()
    stage = Stage.of(rows.withColumns({SPLIT: split_column(job, DAY), SAMPLED_OUT: is_sampled_out(job)}))
    left = stage.counted(DropSampledOut.of(job), stage.kind).rows(tasks).toArrow().combine_chunks()
    assert job.sampling is not None
    assert job.sampling.negatives is not None
    weights = weights_of(left.to_batches()[0], job.labels, job.sampling.negatives)
    flat = left.append_column("weight", weights).append_column("split", [names_of(left[SPLIT])]).flatten().to_pandas()
    samples = flat.rename(columns=lambda name: name.removeprefix("impression."))
    return samples, sampling_facts(job, tasks.result())


def names_of(splits: pa.Array) -> list[str]:
    """The names of splits, by their numbers."""
    return [SPLITS[number] for number in splits.to_pylist()]


def rows_of(count: int, splits: Sequence[str], **labels: Sequence[int]) -> pa.RecordBatch:
    """Samples of the ids 0 to ``count``. Every tenth is clicked, unless told otherwise."""
    clicked = labels.pop("clicked", [int(n % 10 == 0) for n in range(count)])
    columns = {"impression_id": range(count), SPLIT: map(SPLITS.index, splits), "clicked": clicked, **labels}
    return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})


def kept_here(rows: pa.RecordBatch, rate: float = 0.1, salt: str = "a") -> tuple[pd.DataFrame, Counts]:
    """What stays, with its weight, in this process."""
    counts = Counts()
    labels = tuple(name for name in rows.schema.names if name not in ("impression_id", SPLIT))
    (left,) = sample_again(labels, rate, salt, rows, counts)
    return left.to_pandas().assign(**{SPLIT: names_of(left[SPLIT])}), counts


EVERY_FOURTH_OF_EVAL = ["eval" if n % 4 == 3 else "train" for n in range(8000)]


def test_only_negatives_of_train_are_left_out_and_those_that_stay_weigh_more() -> None:
    found, counts = kept_here(rows_of(8000, EVERY_FOURTH_OF_EVAL))
    of_train = found[found[SPLIT] == "train"]
    # Every positive stays, every sample of eval stays, and each of them counts once.
    assert found.clicked.sum() == 800
    assert (found[SPLIT] == "eval").sum() == 2000
    assert set(found[(found.clicked == 1) | (found[SPLIT] == "eval")].sample_weight) == {1.0}
    negatives, facts = of_train[of_train.clicked == 0], sampling_facts(TENTH, counts)
    assert set(negatives.sample_weight) == {10.0}
    # A tenth of the negatives of train stays, give or take four standard deviations.
    assert facts["negatives"] == 6000 - of_train.clicked.sum()
    assert len(negatives) == pytest.approx(facts["negatives"] / 10, abs=4 * (facts["negatives"] * 0.09) ** 0.5)
    assert len(found) + facts["negatives"] - facts["kept"] == 8000
    # So the weights say how many there were.
    assert negatives.sample_weight.sum() == pytest.approx(facts["negatives"], rel=0.2)
    assert facts == {
        "rate": 0.1,
        "salt": "a",
        "negatives": facts["negatives"],
        "kept": len(negatives),
        "expected": round(facts["negatives"] * 0.1, 1),
        "formulas": {
            "weight": "1 / rate for a negative of train, else 1",
            "probability": "p / (p + (1 - p) / rate)",
            "source": "He et al. 2014, Practical Lessons from Predicting Clicks on Ads at Facebook, section 6.3",
        },
    }


def test_the_choice_depends_on_id_and_salt_alone() -> None:
    rows = rows_of(2000, ["train"] * 2000)
    first = set(kept_here(rows)[0].impression_id)
    assert set(kept_here(rows.take(pa.array(range(1999, -1, -1))))[0].impression_id) == first
    assert set(kept_here(rows, salt="b")[0].impression_id) != first
    assert set(kept_here(rows, 0.2)[0].impression_id) > first, "a greater share keeps what a smaller one kept"


def test_a_sample_is_negative_only_if_all_its_labels_are_0() -> None:
    labels = {"clicked": [0] * 2000, "read": [n % 2 for n in range(2000)]}
    found, _ = kept_here(rows_of(2000, ["train"] * 2000, **labels))
    odd = found[found.impression_id % 2 == 1]
    assert len(odd) == 1000
    assert set(odd.sample_weight) == {1.0}


def test_spark_leaves_out_the_same_negatives(spark: SparkSession) -> None:
    # The salt of the configuration may be any text, also one that another hash of the job uses.
    alike = TENTH.model_copy(update={"sampling": Sampling(negatives=0.25, salt="split")})
    rows = shown(spark, 2000)
    found, facts = kept(rows, alike)
    splits = [row[0] for row in rows.select(split_name(split_column(alike, DAY))).collect()]
    here, counts = kept_here(rows_of(2000, splits), 0.25, "split")
    assert set(found.impression_id) == set(here.impression_id)
    assert facts == sampling_facts(alike, counts)
    stayed = ((found.split == "train") & (found.clicked == 0)).sum()
    assert stayed == pytest.approx(facts["negatives"] / 4, rel=0.2)


def test_a_rate_may_depend_on_labels_and_on_what_is_known_of_the_impression(chosen: pd.DataFrame) -> None:
    others = chosen[chosen.split != "train"]
    assert not others[[f"out {name}" for name in RULES]].any(axis=None)
    assert (others[[f"weight {name}" for name in RULES]] == 1).all(axis=None)
    found, train = by("by user", chosen), chosen[chosen.split == "train"]
    assert found.clicked.sum() == train.clicked.sum()
    weights = {(row.clicked, row.user == "u7"): row.weight for row in found.itertuples()}
    assert weights == {(1, False): 1, (0, False): 2, (0, True): 50}
    assert found.weight.sum() == pytest.approx(len(train), rel=0.05)
    assert ids("tenths", chosen) < ids("halves", chosen), "lower rates keep a subset"
    plain, _ = kept_here(rows_of(8000, chosen.sort_values("impression_id").split.tolist()), 0.5, "negatives")
    assert set(plain[plain[SPLIT] == "train"].impression_id) == ids("halves", chosen), "`negatives` is such a rate"


def test_a_cap_keeps_so_many_of_each_key_and_their_weights_stand_for_all(chosen: pd.DataFrame) -> None:
    found, train = by("30 of each", chosen), chosen[chosen.split == "train"]
    assert set(found.groupby("user").size()) == {30}
    assert found.groupby("user").weight.sum().to_dict() == pytest.approx(train.groupby("user").size().to_dict())
    nobody = found[found.user.isna()]
    assert len(nobody) == train.user.isna().sum()
    assert set(nobody.weight) == {1.0}
    assert ids("10 of each", chosen) < ids("30 of each", chosen), "lower caps keep a subset"


def test_rates_caps_and_weights_multiply(chosen: pd.DataFrame) -> None:
    found, plain = by("all at once", chosen), by("half of all", chosen)
    sizes = plain[plain.user.notna()].groupby("user").size()
    mine = found[found.user.notna()]
    expected = [2 * sizes[row.user] / min(20, sizes[row.user]) * (3 if row.clicked else 1) for row in mine.itertuples()]
    assert mine.weight.tolist() == pytest.approx(expected)
    assert ids("all at once", chosen) < ids("half of all", chosen)
    assert ids("all at once", chosen) <= ids("20 of each", chosen), "a lower rate keeps a subset under a cap, too"


def test_under_a_cap_samples_of_each_rate_stay_as_often(chosen: pd.DataFrame) -> None:
    plain, capped = (
        some[some.user.notna()].assign(seventh=some.impression_id % 7 == 0).groupby("user").seventh
        for some in (by("sevenths", chosen), by("20 by sevenths", chosen))
    )
    assert set(capped.size()) == {20}
    assert plain.size().min() > 25
    assert (capped.mean() - plain.mean()).mean() == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("{cap: {key: usr, samples: 3}}", "sampling.cap.key: impressions have no key 'usr'"),
        ("{negatives: 0.5, by: request}", "sampling.by: no key tells which impressions form a request"),
    ],
)
def test_rules_over_keys_that_are_not_there_are_refused(rules: str, message: str) -> None:
    overrides = [f"sampling={rules}", "impressions.request=null", "impressions.identity=row"]
    with pytest.raises(ConfigError, match=message):
        load_config(PROJECT / "conf/open_bandit.yaml", overrides)


def test_the_negatives_of_a_request_stay_or_go_together(chosen: pd.DataFrame) -> None:
    of_train = chosen[(chosen.split == "train") & (chosen.clicked == 0)]
    whole = of_train.groupby(["request", "user"], dropna=False).size()
    found = by("requests", chosen)
    negatives = found[found.clicked == 0].groupby(["request", "user"], dropna=False).size()
    assert (negatives == whole[negatives.index]).all()
    assert 0.2 < len(negatives) / len(whole) < 0.4
    plain = of_train[~of_train["lot of request"]]
    assert set(plain.impression_id) == set(found[found.clicked == 0].impression_id), "`negatives` is such a rate"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({}, "needs `negatives`, or `rate`, `cap` or `weight`"),
        ({"negatives": 0}, "greater than 0"),
        ({"negatives": 1.1}, "less than or equal to 1"),
        ({"negatives": 0.1, "rate": "1"}, "found `negatives` and `rate`; write `negatives: 0.1` as `rate: if"),
        ({"cap": {"samples": 0}}, "greater than or equal to 1"),
    ],
)
def test_rules_that_say_two_things_or_nothing_are_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Sampling.model_validate(rules)


@pytest.mark.thorough
def test_a_run_by_rules_says_how_much_its_samples_stand_for(spark: SparkSession, tmp_path: Path) -> None:
    rules = "{rate: 'if(clicked = 1, 1, 0.3)', cap: {key: user, samples: 400}}"
    user = "impressions.keys={user: user_feature_0, item: item_id}"
    options = [f"sampling={rules}", "split={eval: 0.2, test: 0.1}", user]
    tuesday = made(spark, open_bandit(tmp_path, *options), TUESDAY, accept=())
    found, counts, sampling = tuesday.frame, tuesday.manifest.accounting, tuesday.manifest.sampling
    assert counts["impressions"] == 1300 == counts["samples"] + counts["down_sampled"]
    assert sampling["train"] - sampling["kept"] == counts["down_sampled"]
    assert (tuesday.manifest.splits, tuesday.manifest.label_sum("clicked")) == (["train", "eval", "test"], 6)
    spec = ExampleContract.from_dict(dict(tuesday.manifest.contract))["sample_weight"]
    assert (spec.role, spec.dtype, spec.nonfinite) == ("weight", "float32", False)
    assert sampling["rules"] == {
        "rate": "if(clicked = 1, 1, 0.3)",
        "cap": {"key": "user", "samples": 400},
        "by": "impression",
        "salt": "negatives",
    }
    assert sampling["weights"]["samples"] == pytest.approx(sampling["train"], rel=0.1)
    assert 0 < sampling["weights"]["positives"]["clicked"] < sampling["weights"]["samples"]
    assert found.sample_weight.sum() == pytest.approx(
        sampling["weights"]["samples"] + len(found) - sampling["kept"], rel=1e-5
    )
    assert (found.split == "train").sum() == sampling["kept"]
    assert list(sampling["weights"]["positives"]) == ["clicked"]
    with pytest.raises(UsageError, match="`calibrate` corrects for one rate, but rules chose the samples"):
        open_training_set(str(tmp_path), [str(TUESDAY)], "clicked").kept()
    rate = open_training_set(str(tmp_path), [str(TUESDAY)], "clicked").base_rate
    assert rate == pytest.approx(sampling["weights"]["positives"]["clicked"] / sampling["weights"]["samples"])


def test_rules_without_a_value_are_found(spark: SparkSession, chosen: pd.DataFrame) -> None:
    for number, key in enumerate(WITHOUT_A_VALUE.values()):
        assert set(chosen[f"wrong {number}"].dropna()) == {key}
    for rate in ("impression.nothing", "rand()", "clicked +"):
        with pytest.raises((ConfigError, InputError), match="sampling.rate"):
            rules_of(config(sampling=Sampling(rate=rate)), DAY, shown(spark, 1))


@pytest.mark.thorough
def test_a_run_by_rules_without_a_value_publishes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    message = r"sampling.rate: if\(clicked = 1, 1, 0\) is not a number above 0 and up to 1 for"
    with pytest.raises(InputError, match=message):
        made(spark, open_bandit(tmp_path, "sampling={rate: 'if(clicked = 1, 1, 0)'}"), TUESDAY)
    assert not list(tmp_path.glob("dt=*/manifests/*"))
