"""Joined features, as ctr_samples.samples.features.layouts joins columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ctr_samples.contract import ExampleContract, Part
from ctr_samples.errors import InputError
from ctr_samples.serving.declared import Declared

Join = Callable[[Mapping[str, Any]], dict[str, Any]]


def layout_of(contract: ExampleContract, features: Sequence[Declared]) -> Join:
    """Return a function from the values of declared features to the features in the record."""
    by_name = {feature.name: feature for feature in features}
    parts = [(by_name[part.name], part) for part in contract.parts]
    if contract.layout in ("columns", "sequence"):
        return dict
    if contract.layout == "sparse":
        return lambda made: _sparse(made, parts)
    (joined,) = contract.names("feature")
    return lambda made: {joined: [x for feature, part in parts for x in _numbers(made[feature.name], part)]}


def flattened(value: Any) -> list[Any]:
    """Flatten nested lists."""
    if not value or not isinstance(value[0], list | tuple):
        return value  # type: ignore[no-any-return]
    return flattened([item for items in value for item in items])


def _numbers(value: Any, part: Part) -> list[Any]:
    """Return exactly as many numbers as the part has, or raise InputError: anything else would shift the parts after
    it.
    """
    numbers = flattened(value) if isinstance(value, list) else [value]
    if len(numbers) != part.size:
        raise InputError(f"features.{part.name}: found {len(numbers)} values, expected {part.size}; set `pad: true`.")
    if None in numbers:
        raise InputError(f"features.{part.name}: found a null inside the list; set `fill`.")
    return numbers


def _sparse(made: Mapping[str, Any], parts: Sequence[tuple[Declared, Part]]) -> dict[str, Any]:
    """Indices and values of non-zero entries; each id of a list once, without padding."""
    places: list[int] = []
    values: list[float] = []
    for feature, part in parts:
        value = made[feature.name]
        if feature.is_id:
            ids = sorted(set(value) - {0}) if isinstance(value, list) else [value]
            places += [part.start + i for i in ids]
            values += [1.0] * len(ids)
        else:
            nonzero = [(part.start + i, float(x)) for i, x in enumerate(_numbers(value, part)) if x != 0]
            places += [index for index, _ in nonzero]
            values += [x for _, x in nonzero]
    return {"indices": places, "values": values}
