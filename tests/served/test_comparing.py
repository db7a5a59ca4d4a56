"""What a comparison says of values that are no numbers, of lists and of ids, and that its document and page can be written."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.pseudonyms import Pseudonyms
from ctr_samples.quality.report.served import page_of
from ctr_samples.quality.served import SERVED_FORMAT, Compared, Coverage, Served
from ctr_samples.records.foreign import ForeignRecords
from ctr_samples.served.columns import Tolerance
from ctr_samples.served.comparing import Comparison, Matched
from ctr_samples.served.log import ID, ServedLog
from ctr_samples.shards import open_storage
from tests.support.project import PROJECT

SCHEMA = json.loads((PROJECT / "ctr_samples/quality/served.schema.json").read_text())
NUMBER, VECTOR = FeatureSpec("x", "float32"), FeatureSpec("x", "float32", (2,))
INTEGER, LIST = FeatureSpec("x", "int64"), FeatureSpec("x", "int64", None)
NAN, INFINITY = float("nan"), float("inf")
NONE = np.zeros(0, np.int64)


def compared(spec: FeatureSpec, mine: list[Any], theirs: list[Any], names: Pseudonyms | None = None) -> Compared:
    """The comparison of a feature in some samples, as it is read back from its document."""
    contract = ExampleContract((FeatureSpec("impression_id", "int64", role="key"), spec))
    log = ServedLog(ForeignRecords("log", open_storage("log"), ()), contract, "json", {"x": ("x",)}, ("id",), None)
    comparison = Comparison(log, {"x": Tolerance()}, "UTC", None, names)
    ids = pa.array(range(len(mine)), pa.int64())
    comparison._add(Matched(pa.table({ID: ids, "x": mine}), pa.table({ID: ids, "x": theirs}), NONE, NONE, 0))
    coverage = Coverage(len(mine), len(mine), len(mine), 0, 0, 0, 0)
    features = comparison.features()
    whole = Served(
        SERVED_FORMAT, "feed", "2019-06-05", 1, "run", "log", "2019-06-06T02:00:00", coverage, features, (), (), ()
    )
    jsonschema.validate(json.loads(whole.to_json()), SCHEMA)
    assert "<h2>x</h2>" in page_of(whole)
    return Served.from_json(whole.to_json()).features["x"]


@pytest.mark.parametrize("value", [NAN, INFINITY, -INFINITY, None, 1e300])
def test_a_vector_with_a_value_that_is_no_number_differs_and_has_no_cosine(value: float | None) -> None:
    found = compared(VECTOR, [[1.0, 2.0], [1.0, 2.0]], [[1.0, value], [2.0, 4.0]])
    assert found.different == 2
    assert found.lists == pytest.approx({"length": 2, "served_length": 2, "cosine": 1, "least_cosine": 1})


def test_where_no_vector_is_finite_there_is_no_cosine_at_all() -> None:
    assert compared(VECTOR, [[NAN, 2.0]], [[1.0, 2.0]]).lists == {"length": 2, "served_length": 2}


@pytest.mark.parametrize("spec", [LIST, FeatureSpec("x", "int64", (2,))])
def test_a_list_of_ids_with_a_null_differs(spec: FeatureSpec) -> None:
    found = compared(spec, [[1, 2]], [[1, None]])
    assert (found.different, found.lists["edits"]) == (1, 2)


@pytest.mark.parametrize("value", [NAN, INFINITY])
def test_a_number_that_is_none_differs(value: float) -> None:
    assert compared(NUMBER, [1.0], [value]).pairs[0].served == str(value)


def test_ids_are_never_near_even_beside_a_number_that_is_not_whole() -> None:
    ids = [1_500_000_000 + n for n in range(9)]
    assert compared(INTEGER, ids, [one + (0.5 if one == ids[7] else 3) for one in ids]).different == 9


def test_values_of_users_have_the_pseudonyms_of_the_report() -> None:
    names = Pseudonyms("salt", frozenset({"x"}))
    (pair,) = compared(INTEGER, [4711], [4712], names).pairs
    assert (pair.offline, pair.served) == (names.of(4711), names.of(4712))
    (pair,) = compared(LIST, [[4711, 4712]], [[]], names).pairs
    assert (pair.offline, pair.served) == (f"[{names.of(4711)}, {names.of(4712)}]", "[]")


def test_values_of_other_features_are_shown() -> None:
    (pair,) = compared(INTEGER, [4711], [4712], Pseudonyms("salt", frozenset({"user"}))).pairs
    assert (pair.offline, pair.served) == ("4711", "4712")
