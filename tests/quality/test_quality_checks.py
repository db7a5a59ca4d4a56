"""Each check, by a day like the one before and by one that is broken in its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from ctr_samples.config import Limits, Quality
from ctr_samples.quality.checks import CHECKS, Days, findings
from ctr_samples.quality.metrics import Finding, Measured
from ctr_samples.typed import typed
from tests.support.measured_day import column, tiny_day

Day = dict[str, Any]
"""What was measured of a day, as JSON: easily broken. Or what is changed of it, by ways such as ``duplicates/ids``."""
AGE, CHANNEL = "features/age/splits/train", "features/channel/splits/train"


def evenly(step: int) -> dict[str, list[float]]:
    """The shares of numbers that lie evenly from 0 to 100 steps."""
    shares = [n / 100 for n in range(101)]
    return {"at": [float(step * n) for n in range(101)], "under": shares, "below": shares}


def number(**changed: Any) -> Day:
    """A numeric feature, spread evenly over 0 to 100."""
    spread = {"min": 0.0, "max": 100.0, "distinct": 5000.0, "quantiles": {"0.5": 50.0}, "cdf": evenly(1)}
    return asdict(column(9000, nulls=90, defaults=90, auc=0.55)) | spread | changed


def ids(shares: dict[int, float], **changed: Any) -> Day:
    """An id feature with these shares."""
    top = [{"value": value, "share": share, "positives": 0.1} for value, share in shares.items()]
    return number(cdf=None, quantiles=None, min=1, max=9, top=top) | changed


def feature(train: Day, kind: str = "number") -> Day:
    return {"kind": kind, "dtype": "float32", "shape": [], "splits": {"train": train}}


def label(rows: int, total: float, std: float = 0.3, *, binary: bool = True) -> Day:
    train = {"count": rows, "sum": total, "mean": total / rows, "std": std}
    return {"binary": binary, "splits": {"train": train}}


def by_hour(
    samples: Callable[[int], int] = lambda hour: 400 + 33 * (hour % 2), positives: Callable[[int], int] = lambda _: 42
) -> list[Day]:
    return [{"hour": hour, "samples": samples(hour), "positives": positives(hour)} for hour in range(24)]


def day(changes: Day | None = None, run_date: str = "2019-06-05") -> Day:
    clicked = label(9000, 900.0)
    clicked["splits"]["eval"] = label(1000, 100.0)["splits"]["train"]
    by_split = {"train": {"samples": 9000, "positives": 900}, "eval": {"samples": 1000, "positives": 100}}
    document = asdict(tiny_day(10_000)) | {
        "run_date": run_date,
        "samples": {"train": 9000, "eval": 1000},
        "accounting": {"impressions": 10_500, "samples": 10_000, "no_time": 0, "repeated": 500},
        "labels": {"clicked": clicked, "read_ms": label(9000, 9e6, 4e3, binary=False)},
        "actions": {"clicked": {"actions": 1050, "orphans": 50, "without_value": 0}},
        "funnels": {"read_ms": {"after": "clicked", "positives": 800, "without": 3}},
        "click_rate": {"label": "clicked", "by_split": by_split, "by_hour": by_hour()},
        "features": {
            "age": feature(number()) | {"biases": {"position": 0.2}},
            "channel": feature(ids({1: 0.4, 2: 0.3, 3: 0.2, 4: 0.1}), "id"),
        },
        "views": {
            "user": {"matched": 9500, "match_rate": 0.95, "age_s_p10": 3600, "age_s_median": 36_000},
            "article": {"matched": 9900, "match_rate": 0.99, "age_s_median": 360_000},
        },
        "users": {"looked_at": 10_000, "heaviest": [{"user": "u7", "share": 0.01, "samples": 100}]},
        "duplicates": {"ids": 0, "looked_at": 10_000, "identical": 0.02, "conflicting": 0.01},
    }
    for path, value in (changes or {}).items():
        *parents, last = path.split("/")
        inside = document
        for key in parents:
            inside = inside[key]
        inside[last] = value
    return document


def day_before(changes: Day | None = None) -> Day:
    return day(changes, "2019-06-04")


def last_week(changes: Day | None = None) -> Day:
    return day(changes, "2019-05-29")


def found(*days: Day, quality: Quality | None = None, accepted: tuple[str, ...] = ()) -> list[Finding]:
    """All findings of a day and its references."""
    return findings(Days(*(typed(Measured, document) for document in days)), quality or Quality(), accepted)


def alarms(*days: Day, quality: Quality | None = None) -> dict[str, Finding]:
    """What did not pass, by check: the gravest finding of each."""
    return {one.check: one for one in reversed(found(*days, quality=quality)) if one.standing != "passed"}


def judged(now: Day, before: Day | None = None, limits: Quality | None = None) -> dict[str, Finding]:
    """What did not pass of a day with both references, of which the first two have changes."""
    return alarms(day(now), day_before(before), last_week(), quality=limits)


LOST_MORNING = {
    "click_rate/by_hour": by_hour(
        lambda hour: 0 if 6 <= hour < 9 else 400 + 33 * (hour % 2), lambda hour: 0 if 6 <= hour < 9 else 42
    )
}
SHIFTED_BY_EIGHT_HOURS = {"click_rate/by_hour": by_hour(lambda hour: 1200 if hour >= 16 else 20)}
OTHER_CHANNELS = {CHANNEL: ids({2: 0.4, 3: 0.3, 4: 0.2, 5: 0.1})}

BROKEN: list[tuple[str, str, Day, str]] = [
    ("volume", "blocks", {"samples": {"train": 2500, "eval": 300}}, "2,800 samples (10,000 on 2019-06-04)"),
    ("volume", "warns", {"samples": {"train": 15_000, "eval": 1500}}, "16,500 samples"),
    ("too_few", "warns", {"samples": {"train": 999, "eval": 9000}}, "999 train samples are too few to judge"),
    ("rate", "blocks", {"labels/clicked": label(10_000, 400.0, 0.2)}, "0.04"),
    ("rate", "blocks", {"labels/read_ms": label(9000, 9e3, 4.0, binary=False)}, "read_ms"),
    (
        "silent_hours",
        "blocks",
        {"click_rate/by_hour": by_hour(positives=lambda hour: 42 if hour < 18 else 0)},
        "no clicks at 18:00, 19:00",
    ),
    ("silent_hours", "blocks", LOST_MORNING, "no impressions at 6:00, 7:00, 8:00"),
    ("hours", "blocks", SHIFTED_BY_EIGHT_HOURS, "63.4% of the impressions lie in different hours than on 2019-06-04"),
    ("one_class", "blocks", {"labels/clicked": label(9000, 0.0, 0.0)}, "clicked = 0"),
    ("missing", "blocks", {AGE: number(defaults=4500)}, "50.0% of the rows have the default value of age"),
    ("missing", "warns", {AGE: number(nulls=2000)}, "have no value for age"),
    ("constant", "blocks", {AGE: number(min=0.0, max=0.0, nulls=0)}, "age has only one value (0)"),
    ("nonfinite", "blocks", {AGE: number(nan=500)}, "5.61% of the values of age"),
    ("nonfinite", "warns", {AGE: number(infinite=1)}, "NaN or infinite"),
    (
        "distribution",
        "blocks",
        {AGE: number(quantiles={"0.5": 50_000.0}, cdf=evenly(1000))},
        "median is 5e+04 (50 on 2019-06-04)",
    ),
    (
        "distribution",
        "blocks",
        {AGE: number(quantiles={"0.5": 50.0, "0.9": 900.0}, cdf=evenly(1000))},
        "the distribution of age moved by 0.99; distribution is",
    ),
    ("scale", "blocks", {AGE: number(cdf=evenly(20))}, "the typical non-zero value of age is 1000 (50 on 2019-06-04)"),
    ("scale", "warns", {AGE: number(cdf=evenly(5))}, "(50 on 2019-06-04)"),
    ("values", "blocks", OTHER_CHANNELS, "value 1 of channel makes up 0.0% of the rows (40.0% on 2019-06-04)"),
    ("stability", "blocks", OTHER_CHANNELS, "stability index"),
    (
        "matched",
        "blocks",
        {"views/user/match_rate": 0.5},
        "50.0% of the samples match no row of user (5.0% on 2019-06-04)",
    ),
    (
        "age",
        "blocks",
        {"views/user/age_s_median": 36_000 + 86_400},
        "the median row of user is 34.0 h old (10.0 h on 2019-06-04)",
    ),
    (
        "age",
        "blocks",
        {"views/user/age_s_p10": 86_400, "views/user/age_s_median": 50_000},
        "newest tenth of the rows of user is 24.0 h old (1.0 h on 2019-06-04)",
    ),
    ("leak", "blocks", {AGE: number(auc=0.99)}, "AUC of 0.990"),
    ("leak", "warns", {AGE: number(auc=0.05)}, "AUC of 0.950"),
    (
        "bias",
        "warns",
        {"features/age/biases": {"position": 0.97}},
        "the feature age goes with position, which is a bias, with a correlation of 0.970",
    ),
    ("heavy_user", "blocks", {"users/heaviest": [{"user": "bot", "share": 0.3, "samples": 3000}]}, "user 'bot'"),
    (
        "dropped",
        "blocks",
        {"accounting": {"impressions": 20_000, "samples": 10_000, "no_time": 0, "repeated": 10_000}},
        "50.0% of the impressions were dropped as repeated (4.8% on 2019-06-04)",
    ),
    (
        "orphans",
        "blocks",
        {"actions/clicked": {"actions": 1000, "orphans": 600, "without_value": 0}},
        "60.0% of the actions of clicked match no impression (4.8% on 2019-06-04)",
    ),
    (
        "funnel",
        "warns",
        {"funnels/read_ms/without": 16},
        "16 of the 800 samples with read_ms have no clicked, which comes first; funnel is 0.02, the limit is 0.01",
    ),
    (
        "identical",
        "blocks",
        {"duplicates/identical": 0.6},
        "60.0% of the samples are identical to another sample in all features (2.0% on 2019-06-04)",
    ),
    ("conflicting", "warns", {"duplicates/conflicting": 0.2}, "share all features with a sample of another label"),
    ("same_ids", "blocks", {"duplicates/ids": 3}, "3 samples share their impression_id"),
    ("contract", "warns", {"contract": "beef"}, "the contract differs from that of 2019-06-04"),
]


def test_a_day_like_the_one_before_passes_every_check() -> None:
    everything = found(day(), day_before(), last_week())
    assert {one.check for one in everything} == set(CHECKS)
    assert [one for one in everything if one.standing != "passed"] == []


@pytest.mark.parametrize(("check", "standing", "broken", "said"), BROKEN)
def test_a_broken_day_is_found_by_its_check(check: str, standing: str, broken: Day, said: str) -> None:
    finding = judged(broken)[check]
    assert finding.standing == standing
    assert said.lower() in finding.sentence.lower()


def test_each_check_has_a_broken_day() -> None:
    assert {check for check, *_ in BROKEN} == set(CHECKS) == set(Quality.model_fields)


def list_of_one_value(longest: int) -> Day:
    lengths = {"min": 2, "max": longest, "mean": 2.0}
    return {"features/recent": feature(ids({7: 1.0}, nulls=0, min=7, max=7, lengths=lengths), "id")}


@pytest.mark.parametrize(
    ("first", "standings"),
    [
        (
            {AGE: number(auc=0.99, min=1.0, max=1.0, nulls=0), "duplicates/ids": 1},
            {"leak": "blocks", "constant": "warns", "same_ids": "blocks"},
        ),
        ({AGE: number(nan=4000)}, {"nonfinite": "warns"}),  # it may be how the data are
        ({"labels/clicked": label(900, 900.0)}, {"one_class": "blocks"}),
        ({"labels/clicked": label(50, 50.0)}, {"one_class": "blocks"}),
        ({"labels/clicked": label(49, 49.0)}, {"one_class": "warns"}),
        ({"labels/clicked": label(900, 0.0)}, {"one_class": "warns"}),
        (list_of_one_value(longest=2), {"constant": "warns"}),
        (list_of_one_value(longest=3), {}),
    ],
)
def test_the_first_day_is_judged_by_what_needs_no_other(first: Day, standings: dict[str, str]) -> None:
    assert {check: finding.standing for check, finding in alarms(day(first)).items()} == standings


def shares(values: dict[int, float], **changed: Any) -> Day:
    return {"features/recent": feature(ids(values, **changed), "id")}


def score(mean: float) -> Day:
    """A label with negative values in place of the others."""
    return {"labels": {"score": label(10_000, mean * 10_000, 1.0, binary=False)}}


def clicks(count: int, rows: int) -> Day:
    return {"labels": {"clicked": label(rows, count, 0.1)}}


def three_values(at: list[float]) -> Day:
    curve = {"at": at, "under": [0.0, 0.3, 0.6], "below": [0.3, 0.6, 1.0]}
    return {AGE: number(cdf=curve, nulls=8997, values=3, values_looked_at=3, auc=None)}


FEW = {"looked_at": 40, "values_looked_at": 40}
LISTS = {"lengths": {"min": 0, "max": 5, "mean": 2.0}}
OPEN = {"label_mature": False}
LESS, MORE = ({"labels/clicked": label(9000, total)} for total in (300.0, 3000.0))
CONSTANT = {"min": 0.0, "max": 0.0, "nulls": 0}
POINT = {"at": [0.0], "under": [0.0], "below": [1.0]}
FLAG = {"at": [0.0, 1.0], "under": [0.0, 0.999], "below": [0.999, 1.0]}
CODES = {"cdf": evenly(1), "quantiles": {"0.5": 2}}

JUDGED: dict[str, tuple[Day, Day, str, str]] = {
    "values of few rows have no stability": (
        shares({1: 0.5, 2: 0.5}, **FEW), shares({3: 0.5, 4: 0.5}, **FEW), "stability", "passed",
    ),
    "lists of what was recent turn over": (
        shares({1: 0.06, 2: 0.05}, **LISTS), shares({3: 0.06, 4: 0.05}, **LISTS), "stability", "passed",
    ),
    "a scale is that of enough numbers other than zero": ({AGE: number(cdf=evenly(20), zeros=8900)}, {}, "scale", "passed"),
    "a small day is not refused for its noise": (clicks(4, 100), clicks(10, 100), "rate", "passed"),
    "none of 20 is chance after one": (clicks(0, 20), clicks(1, 20), "rate", "passed"),
    "none of 3000 is chance after three": (clicks(0, 3000), clicks(3, 3000), "rate", "passed"),
    "two of 500 are chance after none": (clicks(2, 500), clicks(0, 500), "rate", "passed"),
    "no clicks at all are found though there is no ratio": ({"labels/clicked": label(9000, 0.0)}, {}, "rate", "blocks"),
    "means below zero are compared by their difference": (score(-0.5), score(-0.501), "rate", "passed"),
    "means below zero that are far apart block": (score(-2.0), score(-0.501), "rate", "blocks"),
    "labels that are not final are not compared with final ones": (LESS | OPEN, {}, "rate", "passed"),
    "labels that are not final are compared with others": (LESS | OPEN, OPEN, "rate", "blocks"),
    "more clicks while windows are open than after they closed": (MORE | OPEN, {}, "rate", "warns"),
    "rows without a ttl are never too old": ({"views/article/age_s_median": 3_600_000}, {}, "age", "passed"),
    "a feature that begins to say something": ({}, {AGE: number(**CONSTANT, cdf=POINT)}, "distribution", "warns"),
    "the chance in a distribution is that of its values and not of the rows": (
        three_values([1.0, 2.0, 3.0]), three_values([1.5, 2.5, 3.5]), "distribution", "passed",
    ),
    "a match that is found for all at last": (
        {CHANNEL: ids({1: 1.0}, min=1, max=1, nulls=0)}, {CHANNEL: ids({1: 0.95, 0: 0.05}, min=0, max=1, nulls=0)},
        "constant", "warns",
    ),
    "a rare flag that did not come today is chance": (
        {AGE: number(**CONSTANT)}, {AGE: number(nulls=0, cdf=FLAG)}, "constant", "warns",
    ),
    "a feature that was constant before": ({AGE: number(**CONSTANT)}, {AGE: number(**CONSTANT)}, "constant", "warns"),
    "integers that are codes are compared by value as well": (
        shares({2: 0.5, 3: 0.5}, **CODES), shares({1: 0.5, 2: 0.5}, **CODES), "values", "blocks",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_a_difference_is_judged_by_what_may_be_chance_or_meant(name: str) -> None:
    now, before, check, standing = JUDGED[name]
    finding = judged(now, before).get(check)
    assert (finding.standing if finding else "passed") == standing


@pytest.mark.parametrize("days", [({AGE: number(cdf=None, quantiles=None)}, {}), ({}, {AGE: number(cdf=None)})])
def test_numbers_that_have_a_distribution_on_one_day_only_are_not_compared(days: tuple[Day, Day]) -> None:
    assert judged(*days).keys().isdisjoint({"distribution", "scale"})


def test_a_feature_whose_window_fills_up_only_warns() -> None:
    moved = {AGE: number(cdf=evenly(9))}
    days = [typed(Measured, one) for one in (day(moved), day_before(), last_week())]
    of_age = {one.check: one for one in findings(Days(*days, filling={"age"}), Quality()) if one.subject == "age"}
    assert of_age["distribution"].standing == "warns"
    assert "the log does not yet go as far back as its window" in of_age["distribution"].sentence
    assert judged(moved)["distribution"].standing == "blocks"


WEEKLY: dict[str, Day] = {
    "volume": {"samples": {"train": 1000, "eval": 100}},
    "hours": SHIFTED_BY_EIGHT_HOURS,
    "silent_hours": LOST_MORNING,
    "age": {"views/user/age_s_median": 360_000},
}


@pytest.mark.parametrize("check", WEEKLY)
def test_what_differs_between_weekdays_warns_until_a_day_of_the_same_weekday_is_there(check: str) -> None:
    monday, sunday = day(WEEKLY[check]), day_before()
    assert alarms(monday, sunday)[check].standing == "warns"
    assert alarms(monday, sunday, last_week())[check].standing == "blocks"
    assert set(alarms(monday, sunday, last_week(WEEKLY[check]))) <= {"rate"}


def test_a_day_without_samples_fails_in_the_first_week_too() -> None:
    first_week = alarms(day({"samples": {"train": 0, "eval": 0}}), day_before())
    assert (first_week["volume"].standing, first_week["too_few"].standing) == ("blocks", "warns")


def test_a_view_that_is_hardly_ever_found_is_heard_of_on_a_first_day() -> None:
    rates = {"views/user/match_rate": 0.0, "views/article/match_rate": 0.6}
    first = day({"samples": {"train": 400, "eval": 50}} | rates)
    (finding,) = (one for one in found(first) if one.check == "matched" and one.standing != "passed")
    assert (finding.subject, finding.standing) == ("user", "warns")
    assert finding.sentence.startswith(
        "100.0% of the samples match no row of user, and there is no earlier day to compare with; "
    )


def test_fewer_clicks_after_all_windows_closed_than_while_they_were_open_are_heard_of() -> None:
    without_the_label = last_week()
    del without_the_label["labels"]["clicked"]
    for others in ([], [without_the_label]):
        finding = alarms(day(LESS), day_before(OPEN), *others)["rate"]
        assert (finding.subject, finding.standing) == ("clicked", "warns")


def of_eval_alone(document: Day) -> Day:
    """A day without train, such as that of a test period."""
    document["samples"] = {"eval": 10_000}
    for entries in (document["features"], document["labels"]):
        for one in entries.values():
            one["splits"] = {"eval": one["splits"]["train"]}
    document["click_rate"]["by_split"] = {"eval": {"samples": 10_000, "positives": 1000}}
    return document


def test_a_day_of_eval_is_compared_with_eval_where_the_day_before_had_train_as_well() -> None:
    splits = {"train": number(cdf=evenly(1000)), "eval": number()}
    now, before = of_eval_alone(day()), day_before({"features/age/splits": splits})
    assert "distribution" not in alarms(now, before, last_week())


IN_TRAIN = ("missing", "constant", "nonfinite", "distribution", "values", "stability", "leak", "one_class")


@pytest.mark.parametrize(
    ("check", "standing", "broken"), [(*one, broken) for *one, broken, _ in BROKEN if one[0] in IN_TRAIN]
)
def test_a_day_without_train_is_judged_by_what_it_has(check: str, standing: str, broken: Day) -> None:
    assert alarms(of_eval_alone(day(broken)), day_before(), last_week())[check].standing == standing
    assert alarms(of_eval_alone(day()), day_before(), last_week()) == {}


def test_a_limit_can_be_raised_a_check_switched_off_and_a_feature_exempted() -> None:
    few = {"samples": {"train": 2500, "eval": 300}}
    assert "volume" not in judged(few, limits=Quality(volume=Limits(warn=None, fail=5)))
    assert "volume" not in judged(few, limits=Quality.model_validate({"volume": "off"}))
    assert judged(few, limits=Quality.model_validate({"volume": {"fail": None}}))["volume"].standing == "warns"
    moved = day({AGE: number(quantiles={"0.5": 50_000.0}, cdf=evenly(1000))})
    exempt = Quality.model_validate({"distribution": {"without": ["age"]}})
    assert set(alarms(moved, day_before(), quality=exempt)) == {"scale"}


def test_a_sentence_says_how_much_was_allowed_unless_it_is_or_is_not() -> None:
    broken = judged({"contract": "beef", "duplicates/ids": 2})
    assert broken["contract"].sentence == "The contract differs from that of 2019-06-04."
    assert broken["same_ids"].sentence == (
        "2 samples share their impression_id with another sample; same_ids is 0.0002, the limit is 1e-06."
    )


def test_the_gravest_come_first_and_what_is_accepted_blocks_nothing() -> None:
    broken = day({"duplicates/ids": 2, "contract": "beef", "samples": {"train": 2500, "eval": 300}})
    listed = found(broken, day_before(), last_week(), accepted=("volume", "contract", "missing"))
    standings = [(one.check, one.standing) for one in listed]
    assert standings[:3] == [("same_ids", "blocks"), ("volume", "accepted"), ("contract", "warns")]
    assert {standing for _, standing in standings[3:]} == {"passed"}
