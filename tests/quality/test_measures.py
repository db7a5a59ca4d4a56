"""What tasks measure and the driver merges, against the same computed on all rows at once."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec, Part
from ctr_samples.quality.feature_facts import Facts
from ctr_samples.quality.measure import collecting
from ctr_samples.quality.measure.collecting import Collector, Wanted, columns_of, measured
from ctr_samples.quality.measure.merging import Measures
from ctr_samples.quality.metrics import Clicks, User

CONTRACT = ExampleContract(
    (
        FeatureSpec("price", "float32"),
        FeatureSpec("city", "int64", buckets=50),
        FeatureSpec("clicks", "int64"),
        FeatureSpec("tags", "int64", None, buckets=9),
        FeatureSpec("name", "bytes"),
        FeatureSpec("clicked", "int64", role="label"),
        FeatureSpec("bought", "int64", role="label"),
        FeatureSpec("impression_id", "int64", role="key"),
    )
)
WANTED = Wanted(CONTRACT, "clicked", "hour", "user", "impression_id", {"price": 0.0}, flags=["bought"])
ROWS = 3600


def rows(**changed: pa.Array) -> pa.RecordBatch:
    """Impressions by chance; ``changed`` are columns."""
    random = np.random.default_rng(5)
    clicked = (random.random(ROWS) < 0.2).astype(np.int64)
    lengths = random.integers(0, 4, ROWS)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = {
        "price": pa.array(np.where(random.random(ROWS) < 0.1, 0, random.gamma(2, 10, ROWS)).astype(np.float32)),
        "city": pa.array(random.zipf(1.5, ROWS).clip(0, 49)),
        "clicks": pa.array(random.integers(0, 30, ROWS) + 5 * clicked),
        "tags": pa.ListArray.from_arrays(pa.array(ends), pa.array(random.integers(0, 9, ends[-1]))),
        "name": pa.array([b"a", b"b", None] * (ROWS // 3), pa.binary()),
        "clicked": pa.array(clicked),
        "impression_id": pa.array(np.arange(ROWS)),
        "hour": pa.array(random.integers(0, 24, ROWS).astype(np.int8)),
        "user": pa.array([f"u{n}" for n in random.zipf(1.3, ROWS).clip(0, 500)]),
        "bought": pa.array(clicked * (np.arange(ROWS) % 7 == 0)),
    }
    return pa.RecordBatch.from_pydict(columns | changed)


def measures(*tasks: list[pa.RecordBatch], first_task: int = 0, wanted: Wanted = WANTED) -> Measures:
    """What tasks with these batches return."""
    returned = []
    for number, batches in enumerate(tasks, first_task):
        collector = Collector(wanted, number)
        for batch in batches:
            collector.observe(batch, "train")
        returned.append(collector.close())
    return Measures.of(returned)


def column(found: Measures, name: str) -> Facts:
    (facts,) = found.columns(CONTRACT, "feature", "label")[name].splits.values()
    return facts


@pytest.fixture(scope="module", params=["whole", "in parts"])
def found(request: pytest.FixtureRequest) -> Measures:
    batch = rows()
    tasks = [batch.slice(0, 10), batch.slice(10, 2990), batch.slice(3000)] if request.param == "in parts" else [batch]
    return measures(*[[task.slice(0, 7), task.slice(7)] for task in tasks])


def test_exact_facts_are_those_of_all_rows(found: Measures) -> None:
    price = rows().column("price").to_numpy().astype(np.float64)
    facts = column(found, "price")
    assert (facts.rows, facts.nulls, facts.values) == (ROWS, 0, ROWS)
    assert facts.zeros == facts.defaults == int((price == 0).sum())
    assert (facts.min, facts.max) == (price.min(), price.max())
    assert facts.mean == pytest.approx(price.mean(), rel=1e-12)
    assert facts.std == pytest.approx(price.std(), rel=1e-12)
    assert column(found, "name").nulls == ROWS // 3
    lengths = column(found, "tags").lengths
    assert lengths is not None
    assert lengths.max == 3


def test_rates_by_hour_are_exact(found: Measures) -> None:
    hours, clicked, bought = (rows().column(name).to_numpy() for name in ("hour", "clicked", "bought"))
    rate = found.click_rate("clicked", hours=True)
    assert rate is not None
    assert [hour.hour for hour in rate.by_hour] == list(range(24))
    assert [hour.samples for hour in rate.by_hour] == np.bincount(hours).tolist()
    assert [hour.positives for hour in rate.by_hour] == np.bincount(hours, clicked).astype(int).tolist()
    assert rate.by_split == {"train": Clicks(ROWS, int(clicked.sum()))}
    assert rate.positives_by_hour == {"bought": tuple(np.bincount(hours, bought).astype(int).tolist())}


def test_sketches_stay_within_their_bounds(found: Measures) -> None:
    price = np.sort(rows().column("price").to_numpy())
    facts = column(found, "price")
    assert facts.looked_at == ROWS
    assert facts.quantiles is not None
    for rank, value in facts.quantiles.items():
        low, high = np.searchsorted(price, value, "left") / ROWS, np.searchsorted(price, value, "right") / ROWS
        assert low - 0.03 <= float(rank) <= high + 0.03
    distinct = len(np.unique(rows().column("city").to_numpy()))
    assert column(found, "city").distinct == pytest.approx(distinct, rel=0.1)


def test_the_most_frequent_values_have_their_shares(found: Measures) -> None:
    city, clicked = (rows().column(name).to_numpy() for name in ("city", "clicked"))
    top = column(found, "city").top
    assert top is not None
    assert (top[0].value, top[0].share) == (1, (city == 1).mean())
    assert top[0].positives == pytest.approx(clicked[city == 1].mean())


def test_a_feature_that_knows_the_label_has_the_auc_that_pairs_say(found: Measures) -> None:
    clicks, clicked = (rows().column(name).to_numpy() for name in ("clicks", "clicked"))
    pairs = clicks[clicked == 1][:, None] - clicks[clicked == 0][None, :]
    by_pairs = ((pairs > 0).sum() + (pairs == 0).sum() / 2) / pairs.size
    assert by_pairs > 0.6
    # Of integers that may be codes as well the better of two, here by the rate of each of 35 values.
    area = column(found, "clicks").auc
    assert area is not None
    assert by_pairs - 0.02 < area < by_pairs + 0.04
    assert column(found, "price").auc == pytest.approx(0.5, abs=0.03)


def test_many_columns_of_many_tasks_count_distinct_values_more_coarsely() -> None:
    few, many = Wanted(CONTRACT, tasks=100), Wanted(CONTRACT, tasks=100_000)
    for wanted in (few, many):
        found = column(measures([rows().slice(0, 1000)], [rows().slice(1000)], wanted=wanted), "city").distinct
        assert found == pytest.approx(len(np.unique(rows().column("city"))), rel=0.2)
    assert few.precision > many.precision


@pytest.mark.parametrize(
    ("name", "kind", "if_clicked", "otherwise", "auc"),
    [
        ("price", pa.float32(), 7.0, None, 1),
        ("price", pa.float32(), 7.0, float("nan"), 1),
        ("tags", pa.list_(pa.int64()), [], [1, 2], 0),
        ("city", pa.int64(), 9, 2, 1),
    ],
)
def test_a_feature_whose_values_or_absence_tell_the_label_has_an_auc_of_one_or_nought(
    name: str, kind: pa.DataType, if_clicked: Any, otherwise: Any, auc: int
) -> None:
    clicked = rows().column("clicked").to_pylist()
    batch = rows(**{name: pa.array([if_clicked if one else otherwise for one in clicked], kind)})
    assert column(measures([batch.slice(0, ROWS // 2), batch]), name).auc == auc


def test_ids_that_are_seen_once_or_twice_do_not_look_good() -> None:
    assert column(measures([rows(city=pa.array(np.arange(ROWS)))]), "city").auc == pytest.approx(0.5, abs=0.02)


def test_the_heaviest_user_is_named(found: Measures) -> None:
    names = rows().column("user").to_pylist()
    users = found.users()
    assert users is not None
    heaviest = users.heaviest[0]
    assert heaviest.user == max(set(names), key=names.count)
    assert heaviest.samples == names.count(heaviest.user)


def test_rows_of_one_key_are_counted_also_across_batches() -> None:
    twice = rows(impression_id=pa.array(np.repeat(np.arange(ROWS // 2), 2)))
    assert measures([twice.slice(0, 3), twice.slice(3)]).same_keys == ROWS // 2
    assert measures([rows()]).same_keys == 0


def test_only_the_first_tasks_look_and_all_count() -> None:
    found = measures([rows()], first_task=collecting.LOOKING)
    facts = column(found, "price")
    assert (facts.rows, facts.looked_at, facts.quantiles, facts.cdf) == (ROWS, 0, None, None)
    assert column(found, "clicks").distinct == pytest.approx(35, rel=0.1)


def test_a_task_looks_at_no_more_rows_and_holds_no_more_bytes_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [rows().slice(0, 60), rows().slice(60)]
    monkeypatch.setattr(collecting, "LOOKED_AT_BYTES", 20_000)
    assert 100 < column(measures(batches), "city").looked_at < 1000
    monkeypatch.setattr(collecting, "LOOKED_AT", 100)
    facts = column(measures(batches), "city")
    assert (facts.rows, facts.looked_at) == (ROWS, 100)


def test_a_batch_of_heavier_rows_after_the_room_is_full_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LOOKED_AT_BYTES", 40_000)
    heavier = rows(name=pa.array([b"x" * 500] * ROWS))
    facts = column(measures([rows().slice(0, 300), heavier.slice(300, 300), heavier.slice(600)]), "city")
    assert (facts.rows, facts.looked_at) == (ROWS, 300)


def test_a_string_that_is_no_text_is_counted_all_the_same() -> None:
    broken = pa.array([b"b\xff", b"ok"] * (ROWS // 2)).cast(pa.binary()).view(pa.string())
    top = column(measures([rows(name=broken)]), "name").top
    assert top is not None
    assert {one.value for one in top} == {"b\\xff", "ok"}


def test_half_of_the_rows_without_a_user_halve_the_share_of_the_others() -> None:
    found = measures([rows(user=pa.array(["u1", None] * (ROWS // 2)))]).users()
    assert found is not None
    assert found.heaviest == (User("u1", 0.5, ROWS // 2),)


def test_nan_that_stands_for_a_missing_value_is_a_default_and_no_fault() -> None:
    wanted = Wanted(CONTRACT, "clicked", defaults={"price": float("nan")})
    prices = pa.array([float("nan"), 1.0, 2.0] * (ROWS // 3), pa.float32())
    facts = column(measures([rows(price=prices)], wanted=wanted), "price")
    assert (facts.defaults, facts.nan, facts.rows) == (ROWS // 3, 0, ROWS)


def test_the_id_of_a_missing_value_counts_as_no_value() -> None:
    batch = rows(city=pa.array([0, 7] * (ROWS // 2)), clicked=pa.array([0, 1] * (ROWS // 2)))
    facts = column(measures([batch], wanted=Wanted(CONTRACT, "clicked", missing={"city": 0})), "city")
    assert (facts.nulls, facts.defaults, facts.rows) == (ROWS // 2, 0, ROWS)
    assert facts.auc == 1.0, "whether there is a value tells of a click"


def test_a_scalar_has_no_lengths_whatever_is_null() -> None:
    some = pa.array([1.0, None] * (ROWS // 2), pa.float32())
    assert column(measures([rows(price=some)]), "price").lengths is None


def test_numbers_too_large_to_be_squared_leave_a_document_of_json() -> None:
    facts = column(measures([rows(price=pa.array([1e308, -1e308] * (ROWS // 2)))]), "price")
    assert (facts.min, facts.max, facts.std) == (-1e308, 1e308, None)
    json.dumps(asdict(facts), allow_nan=False)


def test_what_a_baseline_knows_is_the_rate(found: Measures) -> None:
    rate = rows().column("clicked").to_numpy().mean()
    baseline = found.baseline("clicked")
    assert baseline is not None
    assert (baseline.rate, baseline.accuracy) == (rate, 1 - rate)
    assert baseline.log_loss == pytest.approx(-rate * np.log(rate) - (1 - rate) * np.log(1 - rate))


def test_a_task_without_rows_changes_nothing() -> None:
    whole, with_none = measures([rows()]), measures([rows()], [])
    # Not the sketches of numbers, which throw dice.
    assert column(with_none, "city") == column(whole, "city")
    assert with_none.duplicates() == whole.duplicates()


@pytest.mark.parametrize("layout", ["dense", "legacy_121"])
def test_the_features_inside_a_vector_are_measured_one_by_one(layout: Any) -> None:
    contract = ExampleContract(
        (FeatureSpec("features", "float32", (3,)), FeatureSpec("label", "int64", role="label")),
        layout=layout,
        parts=(Part("age", 0, 1), Part("place", 1, 2)),
    )
    batch = pa.RecordBatch.from_pydict({"features": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "label": [0, 1]})
    assert list(measured(contract)) == ["label", "age", "place"]
    found = {name: values.to_pylist() for name, values in columns_of(batch, contract)}
    assert found == {"label": [0, 1], "age": [1.0, 4.0], "place": [[2.0, 3.0], [5.0, 6.0]]}


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (FeatureSpec("n", "int64"), "number"),
        (FeatureSpec("n", "int64", buckets=8), "id"),
        (FeatureSpec("n", "int64", shape=(5,)), "id"),
        (FeatureSpec("n", "int64", shape=None), "id"),
        (FeatureSpec("n", "float32", shape=(5,)), "number"),
    ],
)
def test_integers_in_lists_are_ids_and_no_numbers_with_a_mean(spec: FeatureSpec, kind: str) -> None:
    contract = ExampleContract((spec,))
    assert measures([], wanted=Wanted(contract)).columns(contract, "feature")["n"].kind == kind
