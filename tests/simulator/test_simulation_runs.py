"""Runs: determinism, the directory, bounded chunks, the spec's checks and the job."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ctr_samples.errors import UsageError
from ctr_samples.simulator import SimulationSpec, SimulationSummary, simulate
from ctr_samples.simulator import simulation as run
from ctr_samples.simulator.feed import Impressions, Memory, pieces_of_day
from ctr_samples.simulator.profiles import PROFILE_TOPICS, Gains, ProfileStore
from ctr_samples.simulator.reactions import Actions, Pending
from ctr_samples.simulator.wall_clock import wall_midnight
from tests.simulator.simulated_files import Simulated, digests, job
from tests.support.command_line import invoke

SMALL = SimulationSpec(days=2, impressions=2_000, seed=3)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[SimulationSummary, dict[str, str]]:
    """The summary and the digests of a small simulation."""
    out = tmp_path_factory.mktemp("small")
    return simulate(SMALL, out), digests(out)


Small = tuple[SimulationSummary, dict[str, str]]


def test_equal_specs_give_equal_bytes_and_replace_an_earlier_simulation(small: Small, tmp_path: Path) -> None:
    simulate(SimulationSpec(days=3, impressions=1_000), tmp_path)
    assert (simulate(SMALL, tmp_path), digests(tmp_path)) == small


def test_another_seed_gives_other_logs(small: Small, tmp_path: Path) -> None:
    simulate(SimulationSpec(days=2, impressions=2_000, seed=4), tmp_path)
    a, b = small[1], digests(tmp_path)
    assert [name for name in a if a[name] == b.get(name)] == ["channels/part-00000.csv"]


@pytest.mark.thorough
def test_a_longer_run_begins_with_the_same_draws_of_the_feed(tmp_path: Path) -> None:
    """The first hour of the first day depends on the seed and its own coordinates, not on what follows."""
    no_new_articles = {"impressions": 2_000, "new_article_rate": 0.0}
    simulate(SimulationSpec(days=1, **no_new_articles), tmp_path / "one")
    simulate(SimulationSpec(days=3, **no_new_articles), tmp_path / "three")
    day = "user_action/dt=2019-06-04/part-00000.json"
    assert (tmp_path / "one" / day).read_bytes() == (tmp_path / "three" / day).read_bytes()


def test_the_layout_is_this(two_days: Simulated) -> None:
    days = {"eve": "dt=2019-06-03", "one": "dt=2019-06-04", "two": "dt=2019-06-05", "after": "dt=2019-06-06"}
    assert set(digests(two_days.out)) == {
        "_simulation.json",
        "article_profile/part-00000.parquet",
        *(f"article_vector/{days[day]}/part-00000.parquet" for day in ("eve", "one", "two")),
        "channels/part-00000.csv",
        *(f"truth/{days[day]}/part-00000.parquet" for day in ("one", "two")),
        *(f"user_action/{days[day]}/part-00000.json" for day in ("one", "two", "after")),
        *(f"user_profile/{days[day]}/part-00000.parquet" for day in days),
    }
    marker = json.loads((two_days.out / "_simulation.json").read_text())
    assert marker["spec"]["impressions"] == 10_000
    assert marker["summary"]["impressions"] == 20_000


def test_the_summary_counts_the_rows_of_the_tables(two_days: Simulated) -> None:
    def rows(table: str) -> int:
        return sum(pq.read_metadata(file).num_rows for file in (two_days.out / table).rglob("*.parquet"))

    assert rows("user_profile") == two_days.summary.user_profile_rows
    assert rows("article_vector") == two_days.summary.article_vector_rows
    assert rows("truth") == two_days.summary.impressions + two_days.summary.repeated_impressions


def test_pieces_of_a_day_add_up_and_none_exceeds_a_chunk() -> None:
    midnight = wall_midnight(date(2019, 6, 4))
    pieces = pieces_of_day(midnight, 1_000_003, 5_000)
    assert sum(piece.impressions for piece in pieces) == 1_000_003
    assert max(piece.impressions for piece in pieces) <= 5_000
    assert [piece.begin for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert (pieces[0].begin, pieces[-1].end) == (midnight, midnight + 86_400)
    assert all((piece.begin - midnight) // 3_600 == (piece.end - 1 - midnight) // 3_600 for piece in pieces)


def test_no_step_sees_more_than_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def spy(shown: Impressions, *rest: object) -> object:
        seen.append(len(shown))
        return original(shown, *rest)

    original: Callable[..., object] = run.truth_table
    monkeypatch.setattr(run, "truth_table", spy)
    summary = simulate(SimulationSpec(days=1, impressions=9_000, chunk_impressions=200), tmp_path / "out")
    assert summary.impressions == sum(seen) == 9_000
    assert max(seen) <= 200
    assert len(seen) > 45


def test_pending_actions_leave_when_their_time_has_come() -> None:
    pending = Pending()
    pending.add(Actions.together([_clicks_at(10, 20), _clicks_at(15)]))
    assert pending.release(16).time.tolist() == [10, 15]
    assert pending.release(16).time.tolist() == []
    assert pending.release(21).time.tolist() == [20]
    assert len(pending) == 0


def _clicks_at(*times: int) -> Actions:
    column = np.zeros(len(times), np.int64)
    return Actions(np.array(times), column, column, column, column - 1, column + 1)


def test_the_feed_does_not_show_an_article_again_before_the_quiet_time() -> None:
    memory = Memory(SimulationSpec(impressions=1_000, label_window_s=1_800))
    user, article = np.array([5, 5, 5]), np.array([9, 9, 8])
    slots = memory.slots(user, article)
    at = wall_midnight(date(2019, 6, 4))
    assert memory.is_free(slots, np.full(3, at)).tolist() == [True, False, True]
    memory.occupy(slots[:1], np.array([at]))
    assert memory.is_free(slots[:1], np.array([at + 5_399])).tolist() == [False]
    assert memory.is_free(slots[:1], np.array([at + 5_400])).tolist() == [True]


def test_a_full_profile_forgets_its_lightest_topics_but_none_of_the_batch() -> None:
    store = ProfileStore(users=2)
    old = np.arange(PROFILE_TOPICS)
    store.fold(Gains(np.ones(PROFILE_TOPICS, np.int64), old, old + 1.0))
    users = store.fold(Gains(np.array([1, 1]), np.array([63, 900]), np.array([10.0, 0.5])))
    assert users.tolist() == [1]
    assert store.topics[1].tolist() == [*range(1, 64), 900]
    assert store.weights[1].tolist() == [*(topic + 1.0 for topic in range(1, 63)), 74.0, 0.5]
    assert set(store.topics[0].tolist()) == {-1}


def test_gains_come_in_blocks_of_whole_users() -> None:
    gains = Gains(np.array([1, 1, 4, 6, 6]), np.arange(5), np.ones(5))
    assert [block.user.tolist() for block in gains.by_users(2)] == [[1, 1, 4], [6, 6]]
    assert list(Gains(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)).by_users(2)) == []


def test_a_world_of_one_user_runs_dry_but_completes(tmp_path: Path) -> None:
    summary = simulate(SimulationSpec(days=1, impressions=500, users=1, articles=2), tmp_path / "out")
    assert 0 < summary.impressions < 500
    assert summary.hot_user_id == 1


def test_a_foreign_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "truth").mkdir()
    (tmp_path / "truth" / "thesis.txt").write_text("ten years of work")
    with pytest.raises(UsageError, match="is not empty and does not hold a simulation"):
        simulate(SMALL, tmp_path)
    assert set(digests(tmp_path)) == {"truth/thesis.txt"}


def test_force_replaces_the_tables_and_leaves_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    simulate(SMALL, tmp_path, force=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "truth").is_dir()


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match="out is a file; expected a directory"):
        simulate(SMALL, tmp_path / "out", force=True)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"days": 0}, "days is 0; expected a whole number of at least 1."),
        ({"impressions": -5}, "impressions is -5; expected a whole number of at least 1."),
        ({"malformed_rate": 1.5}, "malformed_rate is 1.5; expected a number between 0 and 0.5."),
        ({"click_rate": float("nan")}, "click_rate is nan; expected a number between 0.001 and 0.5."),
        ({"start": date(1985, 1, 1)}, "start is 1985-01-01; expected a day between 1992-01-01 and 2100-01-01."),
        ({"chunk_impressions": 1}, "chunk_impressions is 1; expected a whole number of at least 100."),
    ],
)
def test_an_impossible_spec_is_refused_at_birth(knobs: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        SimulationSpec(**knobs)  # type: ignore[arg-type]
    assert str(raised.value) == message


def test_users_and_articles_scale_with_the_impressions() -> None:
    spec = SimulationSpec(impressions=1_000_000)
    assert (spec.users, spec.articles) == (100_000, 20_000)
    spec = SimulationSpec(impressions=100_000_000)
    assert (spec.users, spec.articles) == (1_000_000, 200_000)


@pytest.mark.thorough
def test_the_job_writes_a_simulation_and_sums_it_up_on_stderr(small: Small, tmp_path: Path) -> None:
    done = job("--out", str(tmp_path / "job"), "--days", "2", "--impressions", "2000", "--seed", "3")
    assert (done.returncode, done.stdout) == (0, "")
    summary = dict(line.rsplit(maxsplit=1) for line in done.stderr.splitlines()[1:])
    assert summary[" impressions"] == "4,000"
    assert 0.5 < float(summary[" best auc"]) < 1.0
    assert digests(tmp_path / "job") == small[1]


@pytest.mark.thorough
def test_the_job_refuses_a_foreign_directory_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("ten years of work")
    done = job("--out", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == (
        f"error: {tmp_path} is not empty and does not hold a simulation; choose another directory, or replace its "
        "user_action, user_profile, article_vector, article_profile, channels, truth with --force.\n"
    )


@pytest.mark.parametrize(
    "arguments", [["--days", "0"], ["--start", "2019-06-31"], ["--malformed-rate", "2"], ["--what"]]
)
def test_wrong_arguments_are_refused_without_a_trace(tmp_path: Path, arguments: list[str]) -> None:
    done = invoke("simulate", "--out", tmp_path / "out", *arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert not (tmp_path / "out").exists()
