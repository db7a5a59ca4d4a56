"""Iceberg and Delta tables of a Hive metastore, in the versions that a manifest names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.project import PROJECT

SPARK = "4.1.4"
"""The newest one for which both formats have been published."""


def test_real_iceberg_and_delta_tables_are_read_in_the_versions_that_a_manifest_names(tmp_path: Path) -> None:
    made = subprocess.run(["tools/spark-env", SPARK], cwd=PROJECT, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"Spark {SPARK} cannot be installed: {made.stderr[-200:]}")
    python = PROJECT / made.stdout.strip()
    program = Path(__file__).with_name("lake_tables.py")
    environ = {**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [python, program, tmp_path], cwd=tmp_path, capture_output=True, text=True, check=False, env=environ
    )
    if "unresolved dependency" in done.stderr or "UNRESOLVED DEPENDENCIES" in done.stdout:
        pytest.skip("the jars of Iceberg and Delta cannot be downloaded")
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "done").exists()
