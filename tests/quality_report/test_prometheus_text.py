"""The metrics in the text format of Prometheus, read back by its rules."""

from __future__ import annotations

import re
from dataclasses import replace

from ctr_samples.quality.prometheus import prometheus_text
from tests.quality_report.day_documents import metrics

LINE = re.compile(r'(ctr_samples_[a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (-?[0-9.e+-]+)')
PAIR = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def read(text: str) -> dict[tuple[str, ...], float]:
    """Name and labels without the sample set -> value; every line must be in the format, after its HELP and TYPE."""
    assert text.endswith("\n")
    found: dict[tuple[str, ...], float] = {}
    told: dict[str, int] = {}
    for line in text.splitlines():
        if line.startswith("# "):
            name = line.split(" ")[2]
            told[name] = told.get(name, 0) + 1
            assert re.fullmatch(r"# (HELP [a-z_]+ \S.*|TYPE [a-z_]+ gauge)", line)
            continue
        match = LINE.fullmatch(line)
        assert match, line
        assert told[match[1]] == 2
        pairs = [(k, re.sub(r"\\.", lambda m: ESCAPES[m[0]], v)) for k, v in PAIR.findall(match[2])]
        assert pairs[0][0] == "sample_set"
        key = (match[1].removeprefix("ctr_samples_"), *[v for _, v in pairs[1:]])
        assert key not in found
        found[key] = float(match[3])
    return found


def test_the_metrics_of_a_run() -> None:
    found = read(prometheus_text(metrics()))
    expected = {
        ("run_date_timestamp_seconds",): 1559692800,
        ("created_timestamp_seconds",): 1559786861,
        ("generation",): 3,
        ("run_seconds",): 431.2,
        ("shards",): 48,
        ("shard_bytes",): 741337840,
        ("impressions",): 1562000,
        ("dropped", "repeated"): 96412,
        ("dropped", "no_time"): 0,
        ("samples", "train"): 1021870,
        ("positives", "clicked", "eval"): 3391,
        ("feature_nulls", "channel", "train"): 1021870 // 310,
        ("feature_drift_ratio", "app_version"): 0.42,
        ("view_match_ratio", "user_profile"): 0.912,
        ("checks", "passed"): 16,
        ("checks", "warned"): 2,
        ("checks", "accepted"): 1,
        ("checks", "failed"): 1,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert ("dropped", "samples") not in found
    assert not [key for key in found if key[:2] == ("positives", "read_ms")], "only 0/1 labels have positives"


def test_labels_are_escaped() -> None:
    name = 'a"b\\c\nd} 1\n# HELP x'
    found = read(prometheus_text(replace(metrics(), name=name, samples={name: 7}, drift={"\ud800": 0.5})))
    assert found["samples", name] == 7
    assert found["feature_drift_ratio", "\\ud800"] == 0.5


def test_what_a_day_does_not_have_gives_no_lines() -> None:
    found = read(prometheus_text(replace(metrics(), views={}, features={}, drift={}, labels={}, checks=())))
    assert not {"view_match_ratio", "feature_nulls", "feature_drift_ratio", "positives"} & {key[0] for key in found}
    assert {key[1]: found[key] for key in found if key[0] == "checks"} == {
        "passed": 0, "warned": 0, "accepted": 0, "failed": 0
    }  # fmt: skip


def test_large_counts_keep_all_their_digits() -> None:
    large = replace(metrics(), samples={"train": 1234567890123456})
    assert "} 1234567890123456\n" in prometheus_text(large)
