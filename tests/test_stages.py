"""The table that tools/stages makes of Spark's event log."""

import json
import runpy
from typing import Any

from tests.support.project import PROJECT

TOOL = runpy.run_path(str(PROJECT / "tools/stages"))


def task(stage: int, seconds: float, read: int = 0, fetched: int = 0, shuffled: int = 0) -> dict[str, Any]:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task Metrics": {
            "Executor Run Time": int(seconds * 1e3),
            "Executor CPU Time": int(seconds * 5e8),
            "Disk Bytes Spilled": 0,
            "Input Metrics": {"Bytes Read": read},
            "Shuffle Read Metrics": {"Remote Bytes Read": 0, "Local Bytes Read": fetched},
            "Shuffle Write Metrics": {"Shuffle Bytes Written": shuffled},
        },
    }


def stage(number: int, begin: int, end: int) -> dict[str, Any]:
    scopes = [{"Scope": json.dumps({"name": name})} for name in ("Exchange", "Scan json ")]
    info = {"Stage ID": number, "Stage Name": "collect", "Submission Time": begin, "Completion Time": end}
    return {"Event": "SparkListenerStageCompleted", "Stage Info": {**info, "RDD Info": scopes}}


LOG = [
    task(0, 2.0, read=3_000_000, shuffled=1_500_000),
    {"Event": "SparkListenerTaskEnd", "Stage ID": 0, "Task Metrics": None},
    task(0, 4.0, read=1_000_000, shuffled=500_000),
    stage(0, 1_000, 4_000),
    {"Event": "SparkListenerJobEnd"},
    task(2, 1.0, fetched=2_000_000),
    stage(2, 4_500, 5_500),
]


def test_each_stage_is_the_sum_of_its_tasks() -> None:
    first, second = TOOL["stages_of"](map(json.dumps, LOG))
    assert (first.number, first.tasks, first.seconds, first.cpu, first.read) == (0, 3, 6.0, 3.0, 4_000_000)
    assert (first.shuffled, second.number, second.fetched) == (2_000_000, 2, 2_000_000)


def test_the_table_ends_with_all_stages_together() -> None:
    printed = TOOL["table"](TOOL["stages_of"](map(json.dumps, LOG)), markdown=True)
    assert printed.splitlines()[2:] == [
        "| 0 | 0.0 | 3.0 | 3 | 6.0 | 3.0 | 4.0 | 0.0 | 2.0 | 0.0 | Scan, Exchange |",
        "| 2 | 3.5 | 1.0 | 1 | 1.0 | 0.5 | 0.0 | 2.0 | 0.0 | 0.0 | Scan, Exchange |",
        "| all | 0.0 | 4.5 | 4 | 7.0 | 3.5 | 4.0 | 2.0 | 2.0 | 0.0 |  |",
    ]
