"""Shared parts of the configuration models: names, single values, SQL expressions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ctr_samples.config.rules import broken

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]


def _one_value(value: Any) -> Any:
    if not isinstance(value, int | float | str):
        raise ValueError("expected a number or text")
    return value


Scalar = Annotated[int | float | str, BeforeValidator(_one_value)]


def as_text(value: Any) -> Any:
    """Turn a boolean or number that YAML parsed back into text. Return other values unchanged."""
    # YAML parses `where: true` as a boolean and `key: 1` as a number; both are valid SQL as text.
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Expression = Annotated[str, BeforeValidator(as_text), Field(min_length=1)]
"""Spark SQL expression over the columns of one source, from an allow-list of functions."""


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


OneOrMore = BeforeValidator(_as_list)
"""Validator for a list whose single entry may be written without brackets."""


class Model(BaseModel):
    """A part of the configuration: unknown keys fail, and nothing changes it once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, protected_namespaces=())
    renamed: ClassVar[Mapping[str, str]] = {}
    """Former keys, mapped to the current keys for error messages."""

    @model_validator(mode="after")
    def _keys_fit_together(self) -> Self:
        if (problem := broken(self)) is not None:
            raise ValueError(problem)
        return self


def hint(text: str) -> dict[str, Any]:
    """Return a ``json_schema_extra`` with the hint for messages about a missing key."""
    return {"hint": text}


def from_home(path: str) -> str:
    """Expand a leading ``~`` to the home directory."""
    # Neither Spark nor object stores expand `~`; they would create a directory with that name.
    return os.path.expanduser(path) if path.startswith("~/") else path


OWN_COLUMNS = ("impression_id", "impression_time", "request", "position")
"""Columns of every impression, besides its keys and ``impressions.columns``."""

VIEW_METADATA = ("age_s", "matched")
"""Columns that the as-of join adds to every view."""

HISTORY_COLUMNS = ("items", "ages_s", "length", "matched")
"""Columns of every history, besides its ``columns``."""

SAMPLE_WEIGHT = "sample_weight"
"""Feature added by downsampling."""

RESERVED_FEATURES = ("impression_id", SAMPLE_WEIGHT)
"""Feature names reserved for the job itself."""

LEGACY_LABEL = "label"
"""Name of the label in records of the `legacy_121` layout."""


def final_of(label: str) -> str:
    """Return the name of the mask column that says whether a label's window has closed."""
    return f"{label}__final"


def after_of(label: str) -> str:
    """Return the name of the mask column that says whether the label before a label in a funnel is 1."""
    return f"{label}__after"


def mask_of(label: str) -> str:
    """Return the name of the mask column, which says whether a reduced label has a value."""
    return f"{label}__mask"
