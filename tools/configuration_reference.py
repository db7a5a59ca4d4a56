"""Prints docs/configuration.md from the models of the configuration: `make docs` writes it, a test keeps it true."""

from __future__ import annotations

import inspect
import re
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
from ctr_samples.config.feature import Dot, Lookup, Overlap
from ctr_samples.config.impressions import Cap
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
    ("`views.<name>` of windows", WindowView),
    ("`views.<name>.aggregates`", Aggregates),
    ("`rates.<name>` of daily counts and windows", Rate),
    ("`histories.<name>`", History),
    ("`features.<name>`", Feature),
    ("`features.<name>.lookup`", Lookup),
    ("`features.<name>.overlap`", Overlap),
    ("`features.<name>.dot`", Dot),
    ("`vocabularies.<name>`", Vocabulary),
    ("`fitted`", Fitted),
    ("`partials`", KeptPartials),
    ("`split`", Split),
    ("`sampling`", Sampling),
    ("`sampling.cap`", Cap),
    ("`output`", Output),
    ("`output.retention`", Retention),
    ("`quality`", Quality),
    ("`quality.<check>`", Limits),
    ("`quality.heavy_user`", KeyLimits),
    ("`served`", Served),
    ("`served.limits`", ServedLimits),
]

SHARED: dict[type[BaseModel], str] = {
    SourceKind: "`format` says which kind a source is. All kinds have these keys:",
    ViewKind: "Its keys say which kind it is: `snapshot`, `static`, `daily_counts` or `aggregates`; without any of these it is "
    "one of events. It also has `matched` (whether a row was found) and `age_s` (its age in seconds), which hide columns of "
    "the source with those names. All kinds have these keys:",
    Quality: "Each check has [limits](#qualitycheck), by default these:",
}
"""What is said before the keys of some models."""

INTRODUCTION = """\
# Configuration

<!-- Written by `make docs` from the models in ctr_samples/config; change them there. -->

One YAML file says everything about a sample set. `ctr-samples config --config FILE` checks it, `--explain` prints its plan in
words, `--set a.b=value` changes one key for one run. Unknown and duplicate keys are errors.

- Keys in **bold** are required. A default stands in parentheses; of a boolean it is `false`. A key without a type has
  a section of its own.
- `${NAME}` anywhere stands for an environment variable.
- An *expression* is Spark SQL over the columns of one source: column names, literals, operators, `case`, `cast`, lambdas and
  deterministic functions from an allow-list. Sub-queries, `reflect`, `rand` and the like are refused, when a run plans and by
  `ctr-samples config --check`.
- A *duration* is a number with `ms`, `s`, `m`, `h` or `d`, a *size* one with `B`, `KB`, `KiB`, `MB`, `MiB`, `GB` or `GiB`. A
  *place* is a directory, or `hdfs://`, `s3://`, `gs://` or `az://` and a prefix.
- Times: text is read in `timezone`, unless it has an offset or a zone of its own; a timestamp is taken as it is; a bare number
  must say its unit, as in `timestamp_millis(t)`. A local time that the clocks skip is read an hour later; one that comes twice
  is the first of the two. Times of 1970 and 1971 and from 2200 on are taken for a wrong unit, and refused beyond
  `bad_records.max_rate`.
"""


NAMED = (
    (Expression, "expression"),
    (Duration, "duration"),
    (Age, "duration, `unbounded`"),
    (Size, "size"),
)
"""Types with a name of their own."""


def page() -> Iterator[str]:
    """The whole page, line by line. A key that several kinds share is listed with the first of them."""
    yield INTRODUCTION
    first: dict[str, str] = {}
    for title, model in SECTIONS:
        family = title.partition("`")[2].partition("`")[0].partition(".")[0]
        rows = {row: (name, f"{family} {row}") for name, row in _rows(model)}
        yield f"## {title}\n"
        yield f"{inspect.getdoc(model) or ''}\n"
        if model in SHARED:
            yield f"{SHARED[model]}\n"
        told = [(name, first[entry]) for name, entry in rows.values() if entry in first]
        if told:
            yield f"{_as_elsewhere(told)}\n"
        new = [row for row, (_, entry) in rows.items() if entry not in first]
        if new:
            yield from new
            yield ""
        first |= {entry: title for _, entry in rows.values() if entry not in first}


def _rows(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The name and the line of each key of a model; of a kind those that not all kinds have."""
    shared = next((base.model_fields for base in SHARED if issubclass(model, base) and model is not base), {})
    for name, field in model.model_fields.items():
        if name not in shared:
            key = f"`{field.alias or name}`"
            said = f"**{key}**" if field.is_required() else key
            kind = f" *{_value(field)}*" if _value(field) else ""
            yield key, f"- {said}{kind}: {field.description or ''}"


def _as_elsewhere(told: list[tuple[str, str]]) -> str:
    """Where the keys stand that another kind has too, as in: The same as with ``format: json``: ``path``."""
    parts = []
    for title in dict.fromkeys(title for _, title in told):
        whole, kind = re.fullmatch(r"(`[^`]+`) ?(.*)", title).groups()
        anchor = re.sub(r"[^a-z0-9_ -]", "", title.lower()).replace(" ", "-")
        names = [name for name, other in told if other == title]
        parts.append(f"[{re.sub('^of ', 'for ', kind) or f'in {whole}'}](#{anchor}): {', '.join(names)}")
    return f"The same as {'; as '.join(parts)}."


def _value(field: FieldInfo) -> str:
    """Type, bounds and default of a key."""
    text = _type(field.annotation, field.metadata)
    limits = {type(m): _limit(m) for m in field.metadata if isinstance(m, Ge | Gt | Le | Lt)}
    bounds = [f"{limits.pop(Ge)} to {limits.pop(Le)}"] if {Ge, Le} <= limits.keys() else []
    words = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}
    bounds += [f"{words[kind]} {value}" for kind, value in limits.items()]
    default = _default(field)
    if isinstance(field.default, Limits):
        return default
    choices = text.split(", ")
    if default and default in choices:
        return ", ".join([f"{choice} (default)" if choice == default else choice for choice in choices])
    return " ".join(filter(None, [", ".join([text, *bounds]), f"({default})" if default else ""]))


def _limit(limit: Any) -> Any:
    value = next(getattr(limit, word) for word in ("ge", "gt", "le", "lt") if hasattr(limit, word))
    return format_duration(value) if isinstance(value, timedelta) else value


def _type(kind: Any, metadata: Any = ()) -> str:
    for named, word in NAMED:
        if kind is named or _same_annotation(kind, metadata, named):
            return word
    if get_origin(kind) is Annotated:
        return _type(get_args(kind)[0], get_args(kind)[1:])
    if get_origin(kind) is Literal:
        return ", ".join(f"`{a}`" for a in get_args(kind))
    if get_origin(kind) in (types.UnionType, Union):
        return " or ".join(dict.fromkeys(_type(a) for a in get_args(kind) if a is not type(None)))
    if get_origin(kind) is dict:
        return f"{_type(get_args(kind)[1])} by name".strip()
    if get_origin(kind) in (tuple, list):
        item = _type(get_args(kind)[0])
        several = f"list of ({item})" if re.search(", | or ", item) else f"list of {item}s"
        return f"{item} or list" if OneOrMore in metadata else several
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return ""
    return {str: "text", int: "integer", float: "number", bool: "boolean"}.get(kind, str(kind))


def _same_annotation(kind: Any, metadata: Any, named: Any) -> bool:
    """Pydantic takes the top level of an Annotated apart; its metadata still tells what it was."""
    base, *parts = get_args(named)
    return bool(kind == base) and bool(parts) and any(m == parts[0] for m in metadata)


def _default(field: FieldInfo) -> str:
    value = field.default
    if isinstance(value, Limits):
        return ", ".join(f"`{name}: {limit:g}`" for name, limit in value if isinstance(limit, int | float))
    if (
        value is PydanticUndefined
        or value is None
        or value is False
        or isinstance(value, BaseModel)
        or value in ({}, ())
    ):
        return ""
    if _type(field.annotation, field.metadata) == "size":
        return f"`{format_size(value).replace(' ', '')}`"
    if isinstance(value, timedelta):
        return f"`{format_duration(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    print("\n".join(page()).rstrip())  # noqa: T201
