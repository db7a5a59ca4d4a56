"""The DAG of docs/recipes/deployment, loaded and run by Airflow in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import PROJECT

DAGS = PROJECT / "docs/recipes/deployment"
DAY = "2019-11-26"

Night = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def airflow() -> Path:
    """The programs of an environment with Airflow, which is kept: it takes a minute to install."""
    place = PROJECT / "build/airflow"
    if not (place / "bin/airflow").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(place / "bin/python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", "apache-airflow==3.3.2"], check=True)
    return place / "bin"


@pytest.fixture(scope="session")
def variables(airflow: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Those of an Airflow with an empty database."""
    home = tmp_path_factory.mktemp("airflow")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON", "PYTEST"))}
    own |= {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS)}
    subprocess.run([str(airflow / "airflow"), "db", "migrate"], env=own, check=True, capture_output=True)
    return own


@pytest.fixture
def night(airflow: Path, variables: dict[str, str]) -> Night:
    """``night(command, date="2019-11-26")``: how the run of one night ends whose job is the shell command."""

    def run(script: str, *seconds: str, **conf: str) -> dict[str, Any]:
        own = variables | {"CTR_SAMPLES_COMMAND": f"sh -c '{script}' job"}
        program = [str(airflow / "python"), str(Path(__file__).with_name("run_night.py")), str(DAGS)]
        program += [json.dumps(conf), *seconds]
        done = subprocess.run(program, env=own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return dict(json.loads(done.stdout.splitlines()[-1]))

    return run


def test_what_is_due_is_made_and_its_manifests_are_the_result(night: Night) -> None:
    assert night('echo "a warning"; echo "/samples/older/00000002.json"; echo "/samples/$1/00000001.json"') == {
        "run": "success",
        "task": "success",
        "tries": 1,
        "result": ["/samples/older/00000002.json", "/samples/--due/00000001.json"],
    }


def test_a_night_on_which_nothing_is_due_is_a_success(night: Night) -> None:
    assert night("exit 0") == {"run": "success", "task": "success", "tries": 1, "result": []}


def test_a_person_may_ask_for_a_day(night: Night) -> None:
    assert night('echo "/samples/$1=$2.json"', date=DAY)["result"] == [f"/samples/--date={DAY}.json"]


def test_a_task_that_takes_too_long_leaves_no_process(night: Night, tmp_path: Path) -> None:
    children = tmp_path / "children"
    ended = night(f"sleep 1000 & echo $! > {children}; wait", "5")
    assert (ended["run"], ended["task"]) == ("failed", "failed")
    assert _state_of(int(children.read_text())) in ("gone", "Z")


def _state_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "gone"


def test_a_day_that_another_run_published_first_is_skipped(night: Night) -> None:
    assert night("exit 4") == {"run": "success", "task": "skipped", "tries": 1, "result": None}


@pytest.mark.parametrize("code", [2, 3])
def test_what_is_refused_fails_at_once(night: Night, code: int) -> None:
    assert night(f"exit {code}") == {"run": "failed", "task": "failed", "tries": 1, "result": None}


@pytest.mark.parametrize("code", [1, 5])
def test_a_failure_that_may_pass_is_tried_again(night: Night, tmp_path: Path, code: int) -> None:
    script = f'if mkdir {tmp_path}/first; then exit {code}; fi; echo "/the/manifest.json"'
    assert night(script) == {"run": "success", "task": "success", "tries": 2, "result": ["/the/manifest.json"]}


def test_a_failure_that_stays_fails_after_three_retries(night: Night) -> None:
    assert night("exit 1") == {"run": "failed", "task": "failed", "tries": 4, "result": None}


def test_airflows_own_command_runs_the_demos_day(airflow: Path, variables: dict[str, str], tmp_path: Path) -> None:
    job = f"{Path(sys.executable).parent}/ctr-samples generate --config {PROJECT}/conf/open_bandit.yaml"
    own = variables | {"CTR_SAMPLES_COMMAND": f"{job} --set output.path={tmp_path}/samples"}
    own["PYTHONPATH"] = str(PROJECT)
    command = [
        str(airflow / "airflow"),
        "dags",
        "test",
        "ctr_samples_nightly",
        "2019-11-27",
        "-c",
        json.dumps({"date": DAY}),
        "-f",
    ]
    command.append(str(DAGS / "ctr_samples_nightly.py"))
    done = subprocess.run(command, env=own, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (tmp_path / f"samples/dt={DAY}/manifests/00000001.json").exists()
