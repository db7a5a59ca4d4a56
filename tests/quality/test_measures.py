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


def rows() -> pa.RecordBatch:
    random = np.random.default_rng(5)
    clicked = (random.random(ROWS) < 0.2).astype(np.int64)
    lengths = random.integers(0, 4, ROWS)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.RecordBatch.from_pydict(
        {
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
    )


def measures(*tasks: list[pa.RecordBatch], first_task: int = 0) -> Measures:
    """What tasks with these batches return."""
    returned = []
    for number, batches in enumerate(tasks, first_task):
        collector = Collector(WANTED, number)
        for batch in batches:
            collector.observe(batch, "train")
        returned.append(collector.close())
    return Measures.of(returned)


def column(found: Measures, name: str) -> Facts:
    (facts,) = found.columns(CONTRACT, "feature", "label")[name].splits.values()
    return facts


@pytest.fixture(scope="module")
def whole() -> Measures:
    return measures([rows()])


@pytest.fixture(scope="module")
def in_parts() -> Measures:
    batch = rows()
    tasks = [batch.slice(0, 10), batch.slice(10, 2990), batch.slice(3000)]
    return measures(*[[task.slice(0, 7), task.slice(7)] for task in tasks])


@pytest.mark.parametrize("found", ["whole", "in_parts"])
def test_exact_facts_are_those_of_all_rows(found: str, request: pytest.FixtureRequest) -> None:
    batch, got = rows(), request.getfixturevalue(found)
    price = batch.column("price").to_numpy().astype(np.float64)
    facts = column(got, "price")
    assert (facts.rows, facts.nulls, facts.values) == (ROWS, 0, ROWS)
    assert facts.zeros == facts.defaults == int((price == 0).sum())
    assert (facts.min, facts.max) == (price.min(), price.max())
    assert facts.mean == pytest.approx(price.mean(), rel=1e-12)
    assert facts.std == pytest.approx(price.std(), rel=1e-12)
    assert column(got, "name").nulls == ROWS // 3
    lengths = column(got, "tags").lengths
    assert lengths is not None
    assert lengths.max == 3


@pytest.mark.parametrize("found", ["whole", "in_parts"])
def test_rates_by_hour_are_exact(found: str, request: pytest.FixtureRequest) -> None:
    batch, got = rows(), request.getfixturevalue(found)
    hours, clicked = batch.column("hour").to_numpy(), batch.column("clicked").to_numpy()
    rate = got.click_rate("clicked", hours=True)
    assert rate is not None
    assert [hour.hour for hour in rate.by_hour] == list(range(24))
    assert [hour.samples for hour in rate.by_hour] == np.bincount(hours).tolist()
    assert [hour.positives for hour in rate.by_hour] == np.bincount(hours, clicked).astype(int).tolist()
    assert rate.by_split == {"train": Clicks(ROWS, int(clicked.sum()))}
    bought = batch.column("bought").to_numpy()
    assert rate.positives_by_hour == {"bought": tuple(np.bincount(hours, bought).astype(int).tolist())}


@pytest.mark.parametrize("found", ["whole", "in_parts"])
def test_sketches_stay_within_their_bounds(found: str, request: pytest.FixtureRequest) -> None:
    batch, got = rows(), request.getfixturevalue(found)
    price = np.sort(batch.column("price").to_numpy())
    facts = column(got, "price")
    assert facts.looked_at == ROWS
    assert facts.quantiles is not None
    for rank, value in facts.quantiles.items():
        low, high = np.searchsorted(price, value, "left") / ROWS, np.searchsorted(price, value, "right") / ROWS
        assert low - 0.03 <= float(rank) <= high + 0.03
    distinct = len(np.unique(batch.column("city").to_numpy()))
    assert column(got, "city").distinct == pytest.approx(distinct, rel=0.1)


def test_the_most_frequent_values_have_their_shares(in_parts: Measures) -> None:
    city, clicked = (rows().column(name).to_numpy() for name in ("city", "clicked"))
    top = column(in_parts, "city").top
    assert top is not None
    assert (top[0].value, top[0].share) == (1, (city == 1).mean())
    assert top[0].positives == pytest.approx(clicked[city == 1].mean())


def test_a_feature_that_knows_the_label_has_the_auc_that_pairs_say(in_parts: Measures) -> None:
    clicks, clicked = (rows().column(name).to_numpy() for name in ("clicks", "clicked"))
    pairs = clicks[clicked == 1][:, None] - clicks[clicked == 0][None, :]
    by_pairs = ((pairs > 0).sum() + (pairs == 0).sum() / 2) / pairs.size
    assert by_pairs > 0.6
    # Of integers that may be codes as well the better of two, here by the rate of each of 35 values.
    area = column(in_parts, "clicks").auc
    assert area is not None
    assert by_pairs - 0.02 < area < by_pairs + 0.04
    assert column(in_parts, "price").auc == pytest.approx(0.5, abs=0.03)


def test_many_columns_of_many_tasks_count_distinct_values_more_coarsely() -> None:
    few, many = Wanted(CONTRACT, tasks=100), Wanted(CONTRACT, tasks=100_000)
    for wanted in (few, many):
        tasks = [Collector(wanted, number) for number in range(2)]
        for task, part in zip(tasks, (rows().slice(0, 1000), rows().slice(1000)), strict=True):
            task.observe(part, "train")
        found = column(Measures.of([task.close() for task in tasks]), "city").distinct
        assert found == pytest.approx(len(np.unique(rows().column("city"))), rel=0.2)
    assert few.precision > many.precision


@pytest.mark.parametrize("absent", [None, float("nan")])
def test_a_feature_that_is_there_only_where_clicked_has_an_auc_of_one(absent: float | None) -> None:
    batch = rows()
    price = pa.array([7.0 if clicked else absent for clicked in batch.column("clicked").to_pylist()], pa.float32())
    found = measures([batch.set_column(0, "price", price).slice(0, ROWS // 2), batch.set_column(0, "price", price)])
    assert column(found, "price").auc == 1


def test_a_list_that_is_empty_where_clicked_has_an_auc_of_nought() -> None:
    batch = rows()
    tags = pa.array(
        [[] if clicked else [1, 2] for clicked in batch.column("clicked").to_pylist()], pa.list_(pa.int64())
    )
    assert column(measures([batch.set_column(3, "tags", tags)]), "tags").auc == 0


def test_an_id_that_knows_the_label_has_an_auc_of_one() -> None:
    batch = rows()
    city = pa.array(batch.column("clicked").to_numpy() * 7 + 2)
    found = measures([batch.set_column(1, "city", city)])
    assert column(found, "city").auc == 1.0


def test_ids_that_are_seen_once_or_twice_do_not_look_good() -> None:
    batch = rows()
    found = measures([batch.set_column(1, "city", pa.array(np.arange(ROWS)))])
    assert column(found, "city").auc == pytest.approx(0.5, abs=0.02)


def test_the_heaviest_user_is_named(in_parts: Measures) -> None:
    users = rows().column("user").to_pylist()
    found = in_parts.users()
    assert found is not None
    heaviest = found.heaviest[0]
    assert heaviest.user == max(set(users), key=users.count)
    assert heaviest.samples == users.count(heaviest.user)


def test_rows_of_one_key_are_counted_also_across_batches() -> None:
    batch = rows()
    keys = pa.array(np.repeat(np.arange(ROWS // 2), 2))
    twice = batch.set_column(6, "impression_id", keys)
    assert measures([twice.slice(0, 3), twice.slice(3)]).same_keys == ROWS // 2
    assert measures([batch]).same_keys == 0


def test_only_the_first_tasks_look_and_all_count() -> None:
    found = measures([rows()], first_task=collecting.LOOKING)
    facts = column(found, "price")
    assert (facts.rows, facts.looked_at, facts.quantiles, facts.cdf) == (ROWS, 0, None, None)
    assert column(found, "clicks").distinct == pytest.approx(35, rel=0.1)


def test_a_task_looks_at_no_more_rows_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LOOKED_AT", 100)
    batch = rows()
    facts = column(measures([batch.slice(0, 60), batch.slice(60)]), "city")
    assert (facts.rows, facts.looked_at) == (ROWS, 100)


def test_a_batch_of_heavier_rows_after_the_room_is_full_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LOOKED_AT_BYTES", 40_000)
    batch = rows()
    heavier = batch.set_column(4, "name", pa.array([b"x" * 500] * ROWS))
    facts = column(measures([batch.slice(0, 300), heavier.slice(300, 300), heavier.slice(600)]), "city")
    assert (facts.rows, facts.looked_at) == (ROWS, 300)


def test_a_string_that_is_no_text_is_counted_all_the_same() -> None:
    broken = pa.array([b"b\xff", b"ok"] * (ROWS // 2)).cast(pa.binary()).view(pa.string())
    top = column(measures([rows().set_column(4, "name", broken)]), "name").top
    assert top is not None
    assert {one.value for one in top} == {"b\\xff", "ok"}


def test_half_of_the_rows_without_a_user_halve_the_share_of_the_others() -> None:
    batch = rows()
    found = measures([batch.set_column(8, "user", pa.array(["u1", None] * (ROWS // 2)))]).users()
    assert found is not None
    assert found.heaviest == (User("u1", 0.5, ROWS // 2),)


def test_nan_that_stands_for_a_missing_value_is_a_default_and_no_fault() -> None:
    wanted = Wanted(CONTRACT, "clicked", defaults={"price": float("nan")})
    collector = Collector(wanted, 0)
    prices = pa.array([float("nan"), 1.0, 2.0] * (ROWS // 3), pa.float32())
    collector.observe(rows().set_column(0, "price", prices), "train")
    facts = column(Measures.of([collector.close()]), "price")
    assert (facts.defaults, facts.nan, facts.rows) == (ROWS // 3, 0, ROWS)


def test_the_id_of_a_missing_value_counts_as_no_value() -> None:
    collector = Collector(Wanted(CONTRACT, "clicked", missing={"city": 0}), 0)
    clicked = pa.array([0, 1] * (ROWS // 2))
    batch = rows().set_column(1, "city", pa.array([0, 7] * (ROWS // 2))).set_column(5, "clicked", clicked)
    collector.observe(batch, "train")
    facts = column(Measures.of([collector.close()]), "city")
    assert (facts.nulls, facts.defaults, facts.rows) == (ROWS // 2, 0, ROWS)
    assert facts.auc == 1.0, "whether there is a value tells of a click"


def test_a_scalar_has_no_lengths_whatever_is_null() -> None:
    batch = rows()
    some = pa.array([1.0, None] * (ROWS // 2), pa.float32())
    assert column(measures([batch.set_column(0, "price", some)]), "price").lengths is None


def test_a_task_holds_no_more_bytes_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LOOKED_AT_BYTES", 20_000)
    batch = rows()
    looked_at = column(measures([batch.slice(0, 60), batch.slice(60)]), "city").looked_at
    assert 100 < looked_at < 1000


def test_numbers_too_large_to_be_squared_leave_a_document_of_json() -> None:
    batch = rows()
    huge = batch.set_column(0, "price", pa.array([1e308, -1e308] * (ROWS // 2)))
    facts = column(measures([huge]), "price")
    assert (facts.min, facts.max, facts.std) == (-1e308, 1e308, None)
    json.dumps(asdict(facts), allow_nan=False)


def test_what_a_baseline_knows_is_the_rate(whole: Measures) -> None:
    rate = rows().column("clicked").to_numpy().mean()
    baseline = whole.baseline("clicked")
    assert baseline is not None
    assert (baseline.rate, baseline.accuracy) == (rate, 1 - rate)
    assert baseline.log_loss == pytest.approx(-rate * np.log(rate) - (1 - rate) * np.log(1 - rate))


def test_a_task_without_rows_changes_nothing(whole: Measures) -> None:
    with_none = measures([rows()], [])
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
    measured = Measures.of([Collector(Wanted(contract), 0).close()]).columns(contract, "feature")
    assert measured["n"].kind == kind
