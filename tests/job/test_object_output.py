"""The whole job with its output in an object store, as in conf/production.yaml: from another process, over HTTP."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.job.partial_days import DAY, with_views, write_document, write_logs
from tests.support.bucket_fixtures import s3, s3_server
from tests.support.project import PROJECT
from tests.support.whole_runs import Made

__all__ = ["s3", "s3_server"]


def own_name_is_known() -> bool:
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        return False
    return True


@pytest.fixture
def bucket(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a command leads to the bucket ``lake``."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-test")
    monkeypatch.setenv("BUCKET", "lake")


def call(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ctr_samples", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "secret-of-the-test" not in done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not own_name_is_known(), reason="Spark, given AWS credentials, looks up the name of its machine")
def test_a_day_is_published_to_a_bucket_and_read_back(bucket: None) -> None:
    place = "s3://lake/open_bandit"
    config = ["--config", "conf/open_bandit.yaml", "--date", "2019-11-26"]
    said = call("generate", *config, "--set", "output.path='s3://${BUCKET}/open_bandit'")
    assert f"{place}/dt=2019-11-26/manifests/00000001.json" in said
    assert "4 shard(s), 1,300 records" in call("verify", place)
    assert "s3://lake/open_bandit/dt=2019-11-26/data/" in call("paths", place, "--split", "eval")
    assert "item_click_rate" in call("show", place)


@pytest.mark.slow
@pytest.mark.skipif(not own_name_is_known(), reason="Spark, given AWS credentials, looks up the name of its machine")
def test_two_nights_at_once_on_one_empty_state_in_a_bucket_publish_the_samples_of_the_logs(
    bucket: None, tmp_path: Path
) -> None:
    write_logs(tmp_path, range(-3, 1))

    def shards(out: str) -> list[tuple[str, int, bytes]]:
        config = write_document(tmp_path, out, with_views("item"))
        config.write_text(config.read_text().replace(f"{tmp_path}/partials", "s3://lake/partials"))
        call("generate", "--config", str(config), "--date", str(DAY))
        return Made.newest(tmp_path / out, DAY).shards

    with ThreadPoolExecutor(2) as nights:
        one, two = nights.map(shards, ["one", "two"])
    assert one == two == shards("plain")
    kept = call("partials", "s3://lake/partials")
    assert re.search(r"item +[0-9a-f]{16} +2019-06-02 +2019-06-05 +4 +12 ", kept), (
        "four days, each with its three files"
    )
