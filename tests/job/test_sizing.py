"""What a day needs: it grows with the day, and is said before anything runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ctr_samples.config import load_config
from ctr_samples.config.units import format_size
from ctr_samples.job.sizing import Needs, Size, described, last_size
from ctr_samples.shards import open_storage, publish
from tests.support.command_line import invoke
from tests.support.manifests import manifest
from tests.support.project import PROJECT

DAY = ("2019-06-05", Size(10_000_000, 1 << 30, 8 << 30))


def test_ten_times_the_impressions_need_ten_times_the_tasks_and_disk() -> None:
    _, size = DAY
    one, ten = Needs.of(size), Needs.of(size.scaled(100_000_000))
    assert (one.joining_tasks, one.writing_tasks) == (32, 8)
    assert (ten.joining_tasks, ten.writing_tasks, ten.disk) == (320, 80, 10 * one.disk)
    assert ten.core_seconds == pytest.approx(10 * one.core_seconds)


def test_the_size_is_that_of_the_last_day_published(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    assert last_size(storage) is None
    publish(storage, manifest())
    day, size = last_size(storage) or ("", Size.usual())
    assert (day, size.impressions) == (manifest().run_date, manifest().accounting["impressions"])


def test_the_lines_name_what_to_set_and_where_the_size_comes_from() -> None:
    config = load_config(PROJECT / "conf/simulated.yaml").config
    lines = "\n".join(described(config, DAY))
    assert "10,000,000 impressions, 1 GiB of logs and 8 GiB of records (as 2019-06-05 had)" in lines
    assert "`output.partitions: 8`; the configuration has" in lines
    assert "(in proportion to 2019-06-05)" in "\n".join(described(config, DAY, 5))
    assert "1,000,000 impressions" in "\n".join(described(config, None))


def test_explaining_a_configuration_says_what_a_day_needs() -> None:
    done = invoke("config", "--config", str(PROJECT / "conf/simulated.yaml"), "--explain", "--impressions", "3000000")
    assert "A day of 3,000,000 impressions" in done.stdout


def test_the_table_of_the_operations_page_is_computed_so() -> None:
    text = (PROJECT / "docs/operations.md").read_text()
    rows = re.findall(
        r"^\| (100 GB|10 TB) of logs \| ([\d,]+) million \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text, re.M
    )
    assert [name for name, *_ in rows] == ["100 GB", "10 TB"]
    for _, millions, executors, disk, joining, writing in rows:
        needs = Needs.of(DAY[1].scaled(int(millions.replace(",", "")) * 1_000_000))
        assert (executors, disk) == (f"{needs.executors:,} of 4 cores", format_size(needs.disk))
        assert (joining, writing) == (f"{needs.joining_tasks:,}", f"{needs.writing_tasks:,}")
