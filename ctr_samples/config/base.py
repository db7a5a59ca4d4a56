"""What the models of the configuration share: names, single values, SQL expressions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]


def _one_value(value: Any) -> Any:
    if not isinstance(value, int | float | str):
        raise ValueError("expected a number or text")
    return value


Scalar = Annotated[int | float | str, BeforeValidator(_one_value)]


def as_text(value: Any) -> Any:
    """A plain value of YAML as the text that was meant."""
    # YAML reads `where: true` as a boolean and `key: 1` as a number; as SQL they are the same text.
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Expression = Annotated[str, BeforeValidator(as_text), Field(min_length=1)]
"""A Spark SQL expression over the columns of one source, from an allow-list of functions."""


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


OneOrMore = BeforeValidator(_as_list)
"""For a list of which a single entry may stand alone."""


class Model(BaseModel):
    """A part of the configuration: unknown keys fail, and nothing changes it once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, protected_namespaces=())
    renamed: ClassVar[Mapping[str, str]] = {}
    """Former keys, by which a message names the present ones."""


def check_said_once(model: Model, keys: Iterable[str]) -> None:
    """ValueError where `user` or `article`, which are short for entries of `keys`, stand beside them."""
    for name in ("user", "article"):
        if getattr(model, name) is not None and name in keys:
            raise ValueError(f"found both `{name}` and `keys.{name}`, which are the same; remove one")


def hint(text: str) -> dict[str, Any]:
    """For ``json_schema_extra``: what a message adds where the key is missing."""
    return {"hint": text}


def from_home(path: str) -> str:
    """A path with the home directory in place of ``~``."""
    # Neither Spark nor an object store knows `~`; they would make a directory of that name.
    return os.path.expanduser(path) if path.startswith("~/") else path


OWN_COLUMNS = ("impression_id", "impression_time", "request", "position")
"""What every impression has, besides its keys and ``impressions.columns``."""

VIEW_METADATA = ("age_s", "matched")
"""What the as-of join adds to every view."""

HISTORY_COLUMNS = ("items", "ages_s", "length", "matched")
"""What every history has, besides its ``columns``."""

SAMPLE_WEIGHT = "sample_weight"
"""The feature that down-sampling adds."""

RESERVED_FEATURES = ("impression_id", SAMPLE_WEIGHT)
"""Names on the wire that the job writes itself."""

LEGACY_LABEL = "label"
"""What records of the `legacy_121` layout call their label."""


def mask_of(label: str) -> str:
    """The column that says whether a reduced label has a value."""
    return f"{label}__mask"
