"""The wheel alone, in a new environment and from an empty directory: nothing of the repository is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.new_environment import installed, variables_of

Run = Callable[..., str]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment that has the wheel with TensorFlow, and nothing else."""
    return installed(tmp_path_factory.mktemp("wheel"), "tensorflow")


@pytest.fixture(scope="module")
def run(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a command of the environment in one empty directory; gives what it prints on stdout."""
    empty = tmp_path_factory.mktemp("empty")
    clean = {**variables_of(environment), "NUMBA_CACHE_DIR": str(empty / "kernels")}

    def run(command: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(environment / command), *arguments], cwd=empty, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command} {arguments}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout

    return run


def test_the_demo_makes_samples_and_trains_a_model(run: Run) -> None:
    printed = run("ctr-samples", "demo", "tried")
    manifest = Path(printed.split()[-1])
    assert manifest.match("tried/build/samples/open_bandit/dt=2019-11-26/manifests/00000001.json")
    assert len(run("ctr-samples", "paths", str(manifest.parents[2])).split()) == 4
    run("ctr-samples", "verify", str(manifest.parents[2]))


def test_simulated_logs_are_fitted_sampled_by_spark_submit_and_trained_on(run: Run) -> None:
    run("ctr-samples", "simulate", "--out", "build/simulated", "--impressions", "2000", "--days", "3")
    config = run("ctr-samples", "where", "conf/simulated.yaml").strip()
    day = ["--date", "2019-06-05"]
    fitted = ["--set", "features.age.scale=standardise", "--set", "fitted.path=build/fitted"]
    state = run("ctr-samples", "fit", "--config", config, "--through", "2019-06-04", "--days", "1", *fitted)
    assert state.strip().endswith("00000001.json")
    run("ctr-samples", "generate", "--config", config, *day, *fitted, "--set", "output.path=build/samples/scaled")
    run("ctr-samples", "config", "--config", config, "--explain")
    local = run("ctr-samples", "generate", "--config", config, *day).split()[-1]
    job = run("ctr-samples", "where", "jobs/generate_samples.py").strip()
    other = ["--set", "output.path=build/samples/submitted"]
    submitted = run("spark-submit", "--master", "local[2]", job, "--config", config, *day, *other).split()[-1]
    shards = [sorted(file.read_bytes() for file in _shards(Path(one))) for one in (local, submitted)]
    assert shards[0] == shards[1] != []
    run("ctr-samples", "train", "--samples", str(Path(local).parents[2]), *day, "--epochs", "1")


def test_a_file_that_does_not_come_with_the_package_is_named(run: Run) -> None:
    assert "conf/toutiao.yaml" in run("ctr-samples", "where").splitlines()
    with pytest.raises(AssertionError, match="'jobs/none.py' does not come with ctr-samples"):
        run("ctr-samples", "where", "jobs/none.py")


def test_the_package_is_a_program_and_its_jobs_are_modules(run: Run) -> None:
    assert run("python", "-m", "ctr_samples", "--version") == run("ctr-samples", "--version")
    assert "--known-by" in run("python", "-m", "ctr_samples.jobs.generate_samples", "--help")


def _shards(manifest: Path) -> list[Path]:
    return sorted((manifest.parent.parent / "data").rglob("*.tfrecord"))
