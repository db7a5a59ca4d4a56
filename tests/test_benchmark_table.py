"""The table of `make bench`, its JSON, and its comparison with an earlier one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import figures
from tests.support.figures import (
    Figure,
    Figures,
    Run,
    at_least,
    at_most,
    comparison,
    in_turns,
    main,
    read,
    size,
    table,
    write,
)

QUIET = (0.2, 0.202)
"""Seconds of the calibration before and after, a hundredth apart."""
DENSE = Figure("codec", "encode dense", "x", (95.0, 100.0, 105.0), at_least(45), QUIET)
SINK = Figure("sink", "sink, time vs. dropping", "x", (1.3, 1.2, 1.6), at_most(1.25), (0.2, 0.25))
PEAK = Figure("sink", "peak of a worker", "MiB", (1234.5,), None, QUIET)
RUN = Run("2026-01-31T12:00:00+00:00", "1234abcd", "a machine, 2 cores", {"python": "3.11.7"}, {}, (DENSE, SINK, PEAK))


def only(figure: Figure) -> Run:
    return replace(RUN, figures=(figure,))


def test_the_table_has_goal_figure_verdict_spread_and_noise() -> None:
    assert table(RUN) == (
        "a machine, 2 cores; commit 1234abcd, 2026-01-31T12:00:00+00:00\n"
        "\n"
        "benchmark                  goal            figure     verdict  spread     noise\n"
        "codec\n"
        "  encode dense             at least 45 x   100 x      met      10%        1%\n"
        "sink\n"
        "  sink, time vs. dropping  at most 1.25 x  1.30 x     missed   31%        25%  noisy: repeat\n"
        "  peak of a worker                         1,234 MiB           one round  1%"
    )


def test_a_run_on_small_data_is_marked() -> None:
    run = replace(RUN, settings={"CTR_SAMPLES_BENCH_QUICK": "1", "CTR_SAMPLES_BENCH_ROWS": "100"})
    first, second, *_ = table(run).splitlines()
    assert first.endswith("T12:00:00+00:00, QUICK=1, ROWS=100")
    assert second.startswith("quick: small data")


def test_a_figure_is_the_median_of_its_rounds() -> None:
    assert replace(DENSE, rounds=(1.0, 2.0, 90.0)).value == 2


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [(at_least(100), "met"), (at_least(101), "missed"), (at_most(100), "met"), (at_most(99), "missed"), (None, "")],
)
def test_a_goal_has_a_direction_and_includes_its_limit(goal: figures.Goal | None, verdict: str) -> None:
    assert replace(DENSE, goal=goal).verdict == verdict


def test_noise_is_how_far_the_calibration_moved_in_either_direction() -> None:
    assert replace(DENSE, calibrations=(0.2, 0.25)).noise == pytest.approx(0.25)
    assert replace(DENSE, calibrations=(0.25, 0.2)).noise == pytest.approx(0.25)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    write(RUN, tmp_path / "build" / "bench.json")
    assert read(tmp_path / "build" / "bench.json") == RUN


def verdict(before: Figure, after: Figure) -> list[str]:
    """The last line's ratio, noise, and verdict if there is one."""
    return comparison(only(before), only(after)).splitlines()[-1].split()[-3:]


def test_a_figure_moved_if_it_changed_by_more_than_its_rounds_vary() -> None:
    before = replace(DENSE, rounds=(90.0, 100.0, 110.0))
    assert verdict(before, replace(DENSE, rounds=(125.0, 125.0, 125.0))) == ["1.25x", "20%", "moved"]
    assert verdict(before, replace(DENSE, rounds=(80.0, 80.0, 80.0))) == ["0.80x", "20%", "moved"]
    assert verdict(before, replace(DENSE, rounds=(118.0, 118.0, 118.0)))[1:] == ["1.18x", "20%"]


def test_a_figure_moved_only_if_it_changed_by_more_than_the_machine_did() -> None:
    slower = replace(DENSE, rounds=(120.0, 120.0, 120.0), calibrations=(0.26, 0.26))
    assert verdict(DENSE, slower)[1:] == ["1.20x", "30%"]


def test_a_change_of_less_than_a_tenth_is_noise_however_steady_the_rounds() -> None:
    steady = replace(DENSE, rounds=(100.0,))
    assert verdict(steady, replace(steady, rounds=(109.0,)))[1:] == ["1.09x", "10%"]
    assert verdict(steady, replace(steady, rounds=(111.0,))) == ["1.11x", "10%", "moved"]


def test_a_comparison_lists_what_only_one_run_has() -> None:
    text = comparison(only(DENSE), only(PEAK))
    assert [line.split("  ")[-1] for line in text.splitlines() if "only" in line] == ["only after", "only before"]


def test_runs_of_other_sizes_are_not_compared(tmp_path: Path) -> None:
    write(RUN, tmp_path / "full.json")
    write(replace(RUN, settings={"CTR_SAMPLES_BENCH_QUICK": "1"}), tmp_path / "quick.json")
    with pytest.raises(
        SystemExit, match="error: the runs had different settings: {} before, {'CTR_SAMPLES_BENCH_QUICK': '1'}"
    ):
        main(str(tmp_path / "full.json"), str(tmp_path / "quick.json"))


@pytest.mark.parametrize("text", ["", "{}", '{"figures": 3}'])
def test_a_file_without_figures_is_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(SystemExit, match="error: .*other.json has no figures of benchmarks: "):
        main(str(tmp_path / "other.json"), str(tmp_path / "other.json"))


def test_the_environment_gives_a_size_before_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "QUICK", False)
    assert size("ROWS_OF_A_TEST", 1000, quick=10) == 1000
    monkeypatch.setattr(figures, "QUICK", True)
    assert size("ROWS_OF_A_TEST", 1000, quick=10) == 10
    monkeypatch.setenv("CTR_SAMPLES_BENCH_ROWS_OF_A_TEST", "7")
    assert size("ROWS_OF_A_TEST", 1000, quick=10) == 7


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which only goes on when a test adds to it."""
    now = [0.0]
    monkeypatch.setattr(figures.time, "perf_counter", lambda: now[0])
    return now


def test_ways_take_turns_and_the_first_turn_does_not_count(clock: list[float]) -> None:
    calls: list[str] = []

    def way(name: str, seconds: list[float]) -> None:
        calls.append(name)
        clock[0] += seconds.pop(0)

    slow, fast = [9.0, 4.0, 6.0], [8.0, 1.0, 2.0]
    seconds = in_turns({"slow": lambda: way("slow", slow), "fast": lambda: way("fast", fast)}, 2)
    assert calls == ["slow", "fast"] * 3
    assert {name: some.tolist() for name, some in seconds.items()} == {"slow": [4.0, 6.0], "fast": [1.0, 2.0]}


def test_a_quick_way_counts_with_the_mean_of_many_calls_without_what_precedes_them(clock: list[float]) -> None:
    seconds_of_calls = [0.05, 0.05] + [0.01, 0.03] * 3

    def way() -> None:
        clock[0] += seconds_of_calls.pop(0)

    def before() -> None:
        clock[0] += 5

    (seconds,) = in_turns({"quick": way}, 1, before).values()
    assert seconds == pytest.approx([0.02])


def test_figures_carry_the_calibrations_before_and_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    calibrations = [0.2, 0.202]
    monkeypatch.setattr(figures, "calibrate", lambda: calibrations.pop(0))
    collected = Figures("codec")
    collected.add("encode dense", [95, 100, 105], "x", at_least(45))
    assert collected.calibrated() == [DENSE]
