"""Export of feature measures to TensorFlow Data Validation (``tfdv.load_stats_text``). Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ctr_samples.quality.feature_facts import Facts, FeatureFacts, Lengths

_TYPES = {"int64": "INT", "float32": "FLOAT", "float64": "FLOAT", "bytes": "STRING"}


def statistics_pbtxt(samples: Mapping[str, int], features: Mapping[str, FeatureFacts]) -> str:
    """Return a tensorflow_metadata.v0.DatasetFeatureStatisticsList in text format, with one dataset per split."""
    lines: list[str] = []
    for split, rows in samples.items():
        lines += ["datasets {", f"  name: {_text(split)}", f"  num_examples: {rows}"]
        for name, feature in features.items():
            if split in feature.splits:
                lines += ["  features {", *(f"    {one}" for one in _feature(name, feature, split)), "  }"]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _feature(name: str, feature: FeatureFacts, split: str) -> Iterator[str]:
    facts = feature.splits[split]
    yield f"path {{ step: {_text(name)} }}"
    yield f"type: {_TYPES[feature.dtype]}"
    if feature.kind == "number":
        yield from _block("num_stats", [*_common(facts), *_numbers(facts)])
    else:
        yield from _block("string_stats", [*_common(facts), *_values(facts)])


def _common(facts: Facts) -> Iterator[str]:
    present = facts.rows - facts.nulls
    lengths = facts.lengths or Lengths(1, 1, 1)
    yield from _block(
        "common_stats",
        [
            f"num_non_missing: {present}",
            f"num_missing: {facts.nulls}",
            f"min_num_values: {lengths.min}",
            f"max_num_values: {lengths.max}",
            f"avg_num_values: {facts.values / max(1, present)}",
            f"tot_num_values: {facts.values}",
        ],
    )


def _numbers(facts: Facts) -> Iterator[str]:
    for field, value in (
        ("mean", facts.mean),
        ("std_dev", facts.std),
        ("num_zeros", facts.zeros),
        ("min", facts.min),
        ("median", facts.quantiles and facts.quantiles["0.5"]),
        ("max", facts.max),
    ):
        if value is not None:
            yield f"{field}: {value}"
    if facts.cdf is not None:
        at, below = facts.cdf.at, facts.cdf.below
        buckets = [
            f"buckets {{ low_value: {low} high_value: {high} sample_count: {(share - before) * facts.values} }}"
            for low, high, before, share in zip([at[0], *at], at, [0.0, *below], below, strict=False)
        ]
        yield from _block("histograms", [f"num_nan: {facts.nan}", *buckets, "type: QUANTILES"])


def _values(facts: Facts) -> Iterator[str]:
    if facts.distinct is not None:
        yield f"unique: {round(facts.distinct)}"
    ranked = [(_text(str(top.value)), top.share * facts.values) for top in facts.top or ()]
    for value, often in ranked:
        yield f"top_values {{ value: {value} frequency: {often} }}"
    yield from _block(
        "rank_histogram",
        [
            f"buckets {{ low_rank: {rank} high_rank: {rank} label: {value} sample_count: {often} }}"
            for rank, (value, often) in enumerate(ranked)
        ],
    )


def _block(name: str, lines: list[str]) -> Iterator[str]:
    yield f"{name} {{"
    yield from (f"  {line}" for line in lines)
    yield "}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
