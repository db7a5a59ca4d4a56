"""Prints docs/configuration.md from the models of the configuration: `make docs` writes it, a test keeps it true."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ctr_samples.config import (
    ActionLabel,
    Aggregates,
    CatalogSource,
    ColumnarSource,
    CsvSource,
    DailyCounts,
    DailyCountView,
    DatabaseSource,
    EventView,
    Feature,
    Fitted,
    History,
    Impressions,
    JobConfig,
    JsonSource,
    KeptPartials,
    Limits,
    Output,
    Quality,
    RowLabel,
    Sampling,
    Served,
    SnapshotView,
    Split,
    StaticView,
    Vocabulary,
    WindowView,
)
from ctr_samples.config.base import Expression, OneOrMore
from ctr_samples.config.counting import Rate
from ctr_samples.config.kinds import Kind
from ctr_samples.config.output import Retention
from ctr_samples.config.quality import KeyLimits
from ctr_samples.config.served import ServedLimits
from ctr_samples.config.source import BadRecords, JdbcPartition, SourceKind
from ctr_samples.config.units import Age, Duration, Size, format_duration, format_size
from ctr_samples.config.view import ViewKind

SECTIONS: list[tuple[str, type[BaseModel]]] = [
    ("The file", JobConfig),
    ("`sources.<name>`", SourceKind),
    ("`sources.<name>` with `format: json`", JsonSource),
    ("`sources.<name>` with `format: csv`", CsvSource),
    ("`sources.<name>` with `format: parquet` or `orc`", ColumnarSource),
    ("`sources.<name>` with `format: table`", CatalogSource),
    ("`sources.<name>` with `format: jdbc`", DatabaseSource),
    ("`sources.<name>.bad_records`", BadRecords),
    ("`sources.<name>.partition`", JdbcPartition),
    ("`impressions`", Impressions),
    ("`labels.<name>` of actions", ActionLabel),
    ("`labels.<name>` of the row", RowLabel),
    ("`views.<name>`", ViewKind),
    ("`views.<name>` of events", EventView),
    ("`views.<name>` of snapshots", SnapshotView),
    ("`views.<name>` without times", StaticView),
    ("`views.<name>` of daily counts", DailyCountView),
    ("`views.<name>.daily_counts`", DailyCounts),
    ("`views.<name>.daily_counts.rates.<name>`", Rate),
    ("`views.<name>` of windows", WindowView),
    ("`views.<name>.aggregates`", Aggregates),
    ("`views.<name>.aggregates.rates.<name>`", Rate),
    ("`histories.<name>`", History),
    ("`features.<name>`", Feature),
    ("`vocabularies.<name>`", Vocabulary),
    ("`fitted`", Fitted),
    ("`partials`", KeptPartials),
    ("`split`", Split),
    ("`sampling`", Sampling),
    ("`output`", Output),
    ("`output.retention`", Retention),
    ("`quality`", Quality),
    ("`quality.<check>`", Limits),
    ("`quality.heavy_user`", KeyLimits),
    ("`served`", Served),
    ("`served.limits`", ServedLimits),
]

SHARED: dict[type[Kind], str] = {
    SourceKind: "`format` says which kind a source is. Every kind has these keys, and those of its own below.",
    ViewKind: "The keys of a view say which kind it is: `snapshot`, `static`, `daily_counts` or `aggregates`, and without any "
    "of these it is one of events. Every kind has these keys, and those of its own below.",
}
"""What is said of the models whose keys all kinds have."""

INTRODUCTION = """\
# Configuration

<!-- Written by `make docs` from the models in ctr_samples/config; change them there. -->

One YAML file says everything about a sample set. `ctr-samples config --config FILE` checks it, `--explain` prints its plan in
words, `--set a.b=value` changes one key for one run. Unknown and duplicate keys are errors.

- `{date}` in the path of a source stands for each day that is read; `${NAME}` anywhere stands for an environment variable.
- An *expression* is Spark SQL over the columns of one source. It is parsed by Spark and may use only column names, literals,
  operators, `case`, `cast`, lambdas and deterministic functions from an allow-list; sub-queries, `reflect`, `rand` and the
  like are refused.
  They are parsed and checked when a run plans, and by `ctr-samples config --check`.
- Each view also has `matched` (whether a row was found) and `age_s` (its age in seconds), which hide columns of the source
  with those names.
- A *duration* is a number with `ms`, `s`, `m`, `h` or `d`; a *size* one with `B`, `KB`, `KiB`, `MB`, `MiB`, `GB` or `GiB`.
- Times: text is read in `timezone`, unless it has an offset or a zone of its own; a timestamp is taken as it is; a bare number
  must say its unit, as in `timestamp_millis(t)`. A local time that was skipped when the clocks went forward is read an hour
  later, one that came twice is the first of the two. Times of 1970 and 1971 and from 2200 on are taken for a wrong unit, and
  refused beyond `bad_records.max_rate`.
"""


NAMED = (
    (Expression, "expression"),
    (Duration, "duration"),
    (Age, "duration \\| `unbounded`"),
    (Size, "size"),
)
"""Types with a name of their own."""


def page() -> Iterator[str]:
    """The whole page, line by line."""
    yield INTRODUCTION
    for title, model in SECTIONS:
        yield f"## {title}\n"
        yield f"{inspect.getdoc(model) or ''}\n"
        if model in SHARED:
            yield f"{SHARED[model]}\n"
        yield "| key | value | default | meaning |"
        yield "|---|---|---|---|"
        for name, field in _own_fields(model).items():
            yield f"| `{field.alias or name}` | {_value(field)} | {_default(field)} | {field.description or ''} |"
        yield ""


def _own_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model; of a kind those that not all kinds have."""
    shared = next((base.model_fields for base in SHARED if issubclass(model, base) and model is not base), {})
    return {name: field for name, field in model.model_fields.items() if name not in shared}


def _value(field: FieldInfo) -> str:
    text = _type(field.annotation, field.metadata)
    limits = [m for m in field.metadata if isinstance(m, Ge | Gt | Le | Lt)]
    words = {Ge: ("ge", "≥"), Gt: ("gt", ">"), Le: ("le", "≤"), Lt: ("lt", "<")}
    parts = [f"{words[type(m)][1]} {_limit(getattr(m, words[type(m)][0]))}" for m in limits]
    return ", ".join([text, *parts])


def _limit(value: Any) -> Any:
    return format_duration(value) if isinstance(value, timedelta) else value


def _type(kind: Any, metadata: Any = ()) -> str:
    for named, word in NAMED:
        if kind is named or _same_annotation(kind, metadata, named):
            return word
    if get_origin(kind) is Annotated:
        return _type(get_args(kind)[0], get_args(kind)[1:])
    if get_origin(kind) is Literal:
        return " \\| ".join(f"`{a}`" for a in get_args(kind))
    if get_origin(kind) in (types.UnionType, Union):
        return " \\| ".join(dict.fromkeys(_type(a) for a in get_args(kind) if a is not type(None)))
    if get_origin(kind) is dict:
        return f"name → {_type(get_args(kind)[1])}"
    if get_origin(kind) in (tuple, list):
        item = _type(get_args(kind)[0])
        several = f"list of ({item})" if "\\|" in item else f"list of {item}s"
        return f"{item} \\| {several}" if OneOrMore in metadata else several
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "see below"
    return {str: "text", int: "integer", float: "number", bool: "`true` \\| `false`"}.get(kind, str(kind))


def _same_annotation(kind: Any, metadata: Any, named: Any) -> bool:
    """Pydantic takes the top level of an Annotated apart; its metadata still tells what it was."""
    base, *parts = get_args(named)
    return bool(kind == base) and bool(parts) and any(m == parts[0] for m in metadata)


def _default(field: FieldInfo) -> str:
    value = field.default
    if isinstance(value, Limits):
        return ", ".join(f"`{name}: {limit:g}`" for name, limit in value if isinstance(limit, int | float))
    if value is PydanticUndefined:
        return "*required*"
    if value is None or isinstance(value, BaseModel) or value in ({}, ()):
        return ""
    if _value(field).startswith("size"):
        return f"`{format_size(value).replace(' ', '')}`"
    if _value(field).startswith("duration"):
        return f"`{format_duration(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    print("\n".join(page()).rstrip())  # noqa: T201
