"""The greatest numbers of a list or map, and their keys, in the job and in serving."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from operator import itemgetter
from typing import Any

import pytest

from ctr_samples.config import Feature
from ctr_samples.samples.features.values import source_value
from ctr_samples.serving.declared import Declared
from ctr_samples.serving.feature_inputs import source_of
from tests.support.literal_frames import Frame

LONGS = [4 * 10**18 + 3, 4 * 10**18 + 7, 4 * 10**18 + 1, 2**53, 2**53 + 1, -(2**63), -(2**63) + 1, 2**63 - 1, 0, None]
FINE = [Decimal(f"{10**25 + n}.{m:04}") for n, m in ((3, 1), (3, 0), (7, 2), (1, 9), (-(10**25), 0))]


def column(kind: str, numbers: list[Any]) -> tuple[str, Any]:
    return f"array<{kind}>", numbers


def weights(kind: str, numbers: list[Any]) -> tuple[str, Any]:
    return f"map<string,{kind}>", {f"key {n % 3} {n}": number for n, number in enumerate(numbers)}


@pytest.mark.some(6)
@pytest.mark.parametrize("made", [column, weights])
@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("bigint", LONGS),
        ("decimal(38,4)", [*FINE, *[-number for number in FINE], None]),
        ("decimal(38,0)", [Decimal(10**38 - 1), Decimal(10**38 - 2), Decimal(1 - 10**38), Decimal(2 - 10**38)]),
        ("decimal(9,2)", [Decimal("1.25"), Decimal("-1.50"), Decimal("1.25")]),
        ("tinyint", [-128, 127, 3, -128, None]),
        ("int", [2**31 - 1, -(2**31), 5, 5]),
        ("boolean", [True, False, None, True]),
        ("double", [0.5, float("nan"), -0.0, 0.0, float("-inf"), 1e300, None, -5e-324]),
        ("float", [0.5, float("nan"), -1.5, 0.5, float("inf")]),
    ],
)
def test_numbers_are_ordered_exactly_and_ties_by_their_keys(
    frame: Frame, made: Callable[..., tuple[str, Any]], kind: str, numbers: list[Any]
) -> None:
    schema, value = made(kind, numbers)
    rows = frame(f"item struct<all: {schema}>", [((value,),)])
    entries = value.items() if isinstance(value, dict) else [(n, number) for n, number in enumerate(value)]
    parts = ("values", "keys") if isinstance(value, dict) else ("values",)
    of_kind = {"ragged": True, "dtype": "float32"}
    features = [
        {
            "from": "item.all",
            "top_k": k,
            "part": part,
            "order": order,
            **of_kind,
            **({"dtype": "string"} if part == "keys" else {}),
        }
        for k in (2, 50)
        for part in parts
        for order in ("greatest", "smallest")
    ]
    jobs = [
        source_value(rows, "f", Feature.model_validate(one)).column.alias(f"f{n}") for n, one in enumerate(features)
    ]
    (row,) = rows.select(*jobs).collect()
    for feature, found in zip(features, row, strict=True):
        # Python compares numbers of any size exactly, and sorting in reverse keeps the order of ties.
        ranked = sorted((n, key) for key, n in entries if n is not None and not math.isnan(n))
        ranked.sort(key=itemgetter(0), reverse=feature["order"] == "greatest")
        expected = [entry[feature["part"] == "keys"] for entry in ranked[: feature["top_k"]]]
        assert found == expected, feature
        with localcontext(prec=5):
            assert source_of(Declared.of("f", feature), {})({"item": {"all": value}}) == expected, feature
