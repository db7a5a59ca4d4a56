"""What a host does with the archive, without a cluster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packed.bare_hosts import as_nobody
from tests.support.known_day import DAY
from tests.support.new_environment import job_of, variables_of

ENCODE = """
import sys
import pyarrow as pa
from ctr_samples.codec import ExampleEncoder
from ctr_samples.contract import ExampleContract, FeatureSpec
encoded = ExampleEncoder(ExampleContract((FeatureSpec("a", "int64"),))).encode(pa.record_batch({"a": [1, 2, 3]}))
print(len(encoded), "numba" in sys.modules, sys.prefix)
"""


def test_a_user_without_rights_encodes_from_the_archive_and_compiles_nothing(unpacked: Path) -> None:
    command = as_nobody([str(unpacked / "bin/python"), "-c", ENCODE], PYTHONHOME="/usr")
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["3", "False", str(unpacked)], "")


def test_the_archive_leaves_out_what_no_executor_needs(unpacked: Path) -> None:
    (packages,) = unpacked.glob("lib/python3.*/site-packages")
    assert [name for name in ("pip", "tensorflow", "pyspark/jars") if (packages / name).exists()] == []
    assert (packages / "pyspark/daemon.py").exists()


@pytest.fixture
def for_another_processor(unpacked: Path, shared: Path) -> Path:
    """The environment, as if it had been packed for a processor that nobody has yet."""
    copied = shared / "another"
    shutil.copytree(unpacked, copied, symlinks=True)
    (kernels,) = copied.rglob("kernels-*.packed")
    head, _, code = kernels.read_bytes().partition(b"\n")
    needs = json.loads(head)
    needs["features"].append("avx9000")
    kernels.write_bytes(json.dumps(needs).encode() + b"\n" + code)
    return copied


def test_a_job_on_another_processor_ends_with_one_sentence_and_publishes_nothing(
    environment: Path, for_another_processor: Path, config: Path, tmp_path: Path
) -> None:
    settings = ["--conf", f"spark.pyspark.python={for_another_processor}/bin/python"]
    settings += ["--conf", f"spark.pyspark.driver.python={environment}/python", "--master", "local[1]"]
    job = [
        job_of(environment),
        "--config",
        str(config),
        "--date",
        str(DAY),
        "--set",
        f"output.path={tmp_path}/samples",
    ]
    command = [str(environment / "spark-submit"), *settings, *job]
    own = variables_of(environment)
    done = subprocess.run(command, env=own, cwd=tmp_path, capture_output=True, text=True, check=False)
    sentence = (
        "error: The packed kernels are compiled for x86-64-v3, and the processor of this host, .*, lacks avx9000; pack"
    )
    assert re.search(sentence, done.stdout), done.stderr[-2000:]  # spark-submit prints all of its script there
    assert done.returncode == 2
    assert not (tmp_path / f"samples/dt={DAY}/manifests").exists()
