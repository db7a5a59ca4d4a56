"""Each check, by a day like the one before and by one that is broken in its way."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from ctr_samples.config import Limits, Quality
from ctr_samples.quality.checks import CHECKS, Days, findings
from ctr_samples.quality.metrics import METRICS_FORMAT, Finding, Measured
from ctr_samples.typed import typed

Day = dict[str, Any]
"""What was measured of a day, as JSON: easily broken."""


def evenly(step: int) -> dict[str, list[float]]:
    """The shares of numbers that lie evenly from 0 to 100 steps."""
    shares = [n / 100 for n in range(101)]
    return {"at": [float(step * n) for n in range(101)], "under": shares, "below": shares}


def number(**changed: Any) -> Day:
    """A numeric feature, spread evenly over 0 to 100."""
    return {
        "rows": 9000,
        "nulls": 90,
        "defaults": 90,
        "values": 8910,
        "zeros": 0,
        "nan": 0,
        "infinite": 0,
        "min": 0.0,
        "max": 100.0,
        "mean": 50.0,
        "std": 29.0,
        "lengths": None,
        "distinct": 5000.0,
        "quantiles": {"0.5": 50.0},
        "cdf": evenly(1),
        "top": None,
        "looked_at": 9000,
        "values_looked_at": 8910,
        "auc": 0.55,
    } | changed


def ids(shares: dict[int, float], **changed: Any) -> Day:
    """An id feature with these shares."""
    top = [{"value": value, "share": share, "positives": 0.1} for value, share in shares.items()]
    return number(cdf=None, quantiles=None, min=1, max=9, top=top) | changed


def feature(train: Day, kind: str = "number") -> Day:
    return {"kind": kind, "dtype": "float32", "shape": [], "splits": {"train": train}}


def day(run_date: str = "2019-06-05") -> Day:
    return {
        "format": METRICS_FORMAT,
        "name": "tiny",
        "run_date": run_date,
        "generation": 1,
        "run_id": "20190606T020000-1a2b3c4d",
        "created_at": "2019-06-06T02:00:00+00:00",
        "seconds": 7.0,
        "contract": "c0ffee",
        "label_mature": True,
        "samples": {"train": 9000, "eval": 1000},
        "accounting": {"impressions": 10_500, "samples": 10_000, "no_time": 0, "repeated": 500},
        "shards": {key: {"total": 9, "min": 4, "median": 4.5, "max": 5} for key in ("bytes", "records")} | {"count": 2},
        "labels": {
            "clicked": {
                "binary": True,
                "splits": {
                    "train": {"count": 9000, "sum": 900.0, "mean": 0.1, "std": 0.3},
                    "eval": {"count": 1000, "sum": 100.0, "mean": 0.1, "std": 0.3},
                },
            },
            "read_ms": {"binary": False, "splits": {"train": {"count": 9000, "sum": 9e6, "mean": 1e3, "std": 4e3}}},
        },
        "actions": {"clicked": {"actions": 1050, "orphans": 50, "without_value": 0}},
        "funnels": {"read_ms": {"after": "clicked", "positives": 800, "without": 3}},
        "click_rate": {
            "label": "clicked",
            "by_split": {"train": {"samples": 9000, "positives": 900}, "eval": {"samples": 1000, "positives": 100}},
            "by_hour": [{"hour": hour, "samples": 400 + 33 * (hour % 2), "positives": 42} for hour in range(24)],
        },
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
        "baseline": {"label": "clicked", "rate": 0.1, "accuracy": 0.9, "log_loss": 0.325},
    }


def found(
    now: Day,
    before: Day | None = None,
    same_weekday: Day | None = None,
    *,
    quality: Quality | None = None,
    accepted: tuple[str, ...] = (),
) -> list[Finding]:
    """All findings of a day and its references."""
    measured = (None if document is None else typed(Measured, document) for document in (now, before, same_weekday))
    return findings(Days(*measured), quality or Quality(), accepted)


def alarms(*days: Day | None, quality: Quality | None = None) -> dict[str, Finding]:
    """What did not pass, by check: the gravest finding of each."""
    return {one.check: one for one in reversed(found(*days, quality=quality)) if one.standing != "passed"}


def judged(now: Day, before: Day | None = None, limits: Quality | None = None) -> dict[str, Finding]:
    """What did not pass of a day with both references."""
    reference = day("2019-06-04") if before is None else before
    return alarms(now, reference, day("2019-05-29"), quality=limits)


def changed(path: str, value: Any) -> Callable[[Day], None]:
    *parents, last = path.split("/")

    def change(document: Day) -> None:
        for key in parents:
            document = document[int(key)] if isinstance(document, list) else document[key]
        document[last] = value

    return change


def late_clicks(document: Day) -> None:
    for hour in document["click_rate"]["by_hour"][18:]:
        hour["positives"] = 0


def lost_morning(document: Day) -> None:
    for hour in document["click_rate"]["by_hour"][6:9]:
        hour |= {"samples": 0, "positives": 0}


def shifted_by_eight_hours(document: Day) -> None:
    for hour in document["click_rate"]["by_hour"]:
        hour["samples"] = 1200 if hour["hour"] >= 16 else 20


BROKEN: list[tuple[str, str, Callable[[Day], None], str]] = [
    ("volume", "blocks", changed("samples", {"train": 2500, "eval": 300}), "2,800 samples (10,000 on 2019-06-04)"),
    ("volume", "warns", changed("samples", {"train": 15_000, "eval": 1500}), "16,500 samples"),
    (
        "too_few",
        "warns",
        changed("samples", {"train": 999, "eval": 9000}),
        "999 train samples are too few to judge",
    ),
    (
        "rate",
        "blocks",
        changed("labels/clicked/splits", {"train": {"count": 10_000, "sum": 400.0, "mean": 0.04, "std": 0.2}}),
        "0.04",
    ),
    (
        "rate",
        "blocks",
        changed("labels/read_ms/splits", {"train": {"count": 9000, "sum": 9e3, "mean": 1.0, "std": 4.0}}),
        "read_ms",
    ),
    ("silent_hours", "blocks", late_clicks, "no clicks at 18:00, 19:00"),
    ("silent_hours", "blocks", lost_morning, "no impressions at 6:00, 7:00, 8:00"),
    ("hours", "blocks", shifted_by_eight_hours, "63.4% of the impressions lie in different hours than on 2019-06-04"),
    (
        "one_class",
        "blocks",
        changed("labels/clicked/splits", {"train": {"count": 9000, "sum": 0.0, "mean": 0.0, "std": 0.0}}),
        "clicked = 0",
    ),
    (
        "missing",
        "blocks",
        changed("features/age/splits/train", number(defaults=4500)),
        "50.0% of the rows have the default value of age",
    ),
    ("missing", "warns", changed("features/age/splits/train", number(nulls=2000)), "have no value for age"),
    (
        "constant",
        "blocks",
        changed("features/age/splits/train", number(min=0.0, max=0.0, nulls=0)),
        "age has only one value (0)",
    ),
    ("nonfinite", "blocks", changed("features/age/splits/train", number(nan=500)), "5.61% of the values of age"),
    ("nonfinite", "warns", changed("features/age/splits/train", number(infinite=1)), "NaN or infinite"),
    (
        "distribution",
        "blocks",
        changed(
            "features/age/splits/train",
            number(
                quantiles={"0.5": 50_000.0},
                cdf=evenly(1000),
            ),
        ),
        "median is 5e+04 (50 on 2019-06-04)",
    ),
    (
        "distribution",
        "blocks",
        changed("features/age/splits/train", number(quantiles={"0.5": 50.0, "0.9": 900.0}, cdf=evenly(1000))),
        "the distribution of age moved by 0.99; distribution is",
    ),
    (
        "scale",
        "blocks",
        changed("features/age/splits/train", number(cdf=evenly(20))),
        "the typical non-zero value of age is 1000 (50 on 2019-06-04)",
    ),
    ("scale", "warns", changed("features/age/splits/train", number(cdf=evenly(5))), "(50 on 2019-06-04)"),
    (
        "values",
        "blocks",
        changed("features/channel/splits/train", ids({2: 0.4, 3: 0.3, 4: 0.2, 5: 0.1})),
        "value 1 of channel makes up 0.0% of the rows (40.0% on 2019-06-04)",
    ),
    (
        "stability",
        "blocks",
        changed("features/channel/splits/train", ids({2: 0.4, 3: 0.3, 4: 0.2, 5: 0.1})),
        "stability index",
    ),
    (
        "matched",
        "blocks",
        changed("views/user", {"matched": 5000, "match_rate": 0.5, "age_s_median": 36_000}),
        "50.0% of the samples match no row of user (5.0% on 2019-06-04)",
    ),
    (
        "age",
        "blocks",
        changed(
            "views/user", {"matched": 9500, "match_rate": 0.95, "age_s_p10": 3600, "age_s_median": 36_000 + 86_400}
        ),
        "the median row of user is 34.0 h old (10.0 h on 2019-06-04)",
    ),
    (
        "age",
        "blocks",
        changed("views/user", {"matched": 9500, "match_rate": 0.95, "age_s_p10": 86_400, "age_s_median": 50_000}),
        "newest tenth of the rows of user is 24.0 h old (1.0 h on 2019-06-04)",
    ),
    ("leak", "blocks", changed("features/age/splits/train", number(auc=0.99)), "AUC of 0.990"),
    ("leak", "warns", changed("features/age/splits/train", number(auc=0.05)), "AUC of 0.950"),
    (
        "bias",
        "warns",
        changed("features/age/biases", {"position": 0.97}),
        "the feature age goes with position, which is a bias, with a correlation of 0.970",
    ),
    (
        "heavy_user",
        "blocks",
        changed("users", {"looked_at": 10_000, "heaviest": [{"user": "bot", "share": 0.3, "samples": 3000}]}),
        "user 'bot'",
    ),
    (
        "dropped",
        "blocks",
        changed("accounting", {"impressions": 20_000, "samples": 10_000, "no_time": 0, "repeated": 10_000}),
        "50.0% of the impressions were dropped as repeated (4.8% on 2019-06-04)",
    ),
    (
        "orphans",
        "blocks",
        changed("actions", {"clicked": {"actions": 1000, "orphans": 600, "without_value": 0}}),
        "60.0% of the actions of clicked match no impression (4.8% on 2019-06-04)",
    ),
    (
        "funnel",
        "warns",
        changed("funnels/read_ms/without", 16),
        "16 of the 800 samples with read_ms have no clicked, which comes first; funnel is 0.02, the limit is 0.01",
    ),
    (
        "identical",
        "blocks",
        changed("duplicates", {"ids": 0, "looked_at": 9000, "identical": 0.6, "conflicting": 0.01}),
        "60.0% of the samples are identical to another sample in all features (2.0% on 2019-06-04)",
    ),
    (
        "conflicting",
        "warns",
        changed("duplicates", {"ids": 0, "looked_at": 9000, "identical": 0.02, "conflicting": 0.2}),
        "share all features with a sample of another label",
    ),
    ("same_ids", "blocks", changed("duplicates/ids", 3), "3 samples share their impression_id"),
    ("contract", "warns", changed("contract", "beef"), "the contract differs from that of 2019-06-04"),
]


def test_a_day_like_the_one_before_passes_every_check() -> None:
    everything = found(day(), day("2019-06-04"), day("2019-05-29"))
    assert {one.check for one in everything} == set(CHECKS)
    assert [one for one in everything if one.standing != "passed"] == []


@pytest.mark.parametrize(("check", "standing", "break_it", "said"), BROKEN)
def test_a_broken_day_is_found_by_its_check(
    check: str, standing: str, break_it: Callable[[Day], None], said: str
) -> None:
    broken = day()
    break_it(broken)
    finding = judged(broken)[check]
    assert finding.standing == standing
    assert said.lower() in finding.sentence.lower()


def test_each_check_has_a_broken_day() -> None:
    assert {check for check, *_ in BROKEN} == set(CHECKS) == set(Quality.model_fields)


def test_the_first_day_is_judged_by_what_needs_no_other() -> None:
    broken = day()
    broken["features"]["age"]["splits"]["train"] |= {"auc": 0.99, "min": 1.0, "max": 1.0, "nulls": 0}
    broken["duplicates"]["ids"] = 1
    assert {check: finding.standing for check, finding in alarms(broken).items()} == {
        "leak": "blocks",
        "constant": "warns",
        "same_ids": "blocks",
    }


def test_nan_on_a_first_day_may_be_how_the_data_are() -> None:
    first = day()
    first["features"]["age"]["splits"]["train"] |= {"nan": 4000}
    assert {check: finding.standing for check, finding in alarms(first).items()} == {"nonfinite": "warns"}


def test_values_of_few_rows_have_no_stability() -> None:
    both = [day(), day("2019-06-04")]
    for document, shares in zip(both, ({1: 0.5, 2: 0.5}, {3: 0.5, 4: 0.5}), strict=True):
        document["features"]["channel"] = feature(ids(shares, looked_at=40, values_looked_at=40), "id")
    assert "stability" not in judged(*both)


def test_lists_of_what_was_recent_turn_over_without_a_finding() -> None:
    both = [day(), day("2019-06-04")]
    for document, shares in zip(both, ({1: 0.06, 2: 0.05}, {3: 0.06, 4: 0.05}), strict=True):
        lists = ids(shares, lengths={"min": 0, "max": 5, "mean": 2.0})
        document["features"]["recent"] = feature(lists, "id")
    assert judged(*both) == {}


def test_lists_of_one_value_are_constant_if_they_are_equally_long() -> None:
    for longest in (2, 3):
        broken = day()
        lists = ids({7: 1.0}, nulls=0, min=7, max=7, lengths={"min": 2, "max": longest, "mean": 2.0})
        broken["features"]["recent"] = feature(lists, "id")
        assert ("constant" in alarms(broken)) == (longest == 2)


def test_a_scale_is_that_of_enough_numbers_other_than_zero() -> None:
    for zeros in (0, 8900):
        broken = day()
        broken["features"]["age"]["splits"]["train"] |= {"cdf": evenly(20), "zeros": zeros}
        assert ("scale" in judged(broken)) == (zeros == 0)


def test_numbers_that_have_a_distribution_on_one_day_only_are_not_compared() -> None:
    for one in (0, 1):
        both = [day(), day("2019-06-04")]
        both[one]["features"]["age"]["splits"]["train"] |= {"cdf": None, "quantiles": None}
        assert judged(*both).keys().isdisjoint({"distribution", "scale"})


def test_a_feature_whose_window_fills_up_only_warns() -> None:
    moved = day()
    moved["features"]["age"]["splits"]["train"] |= {"cdf": evenly(9)}
    days = [typed(Measured, one) for one in (moved, day("2019-06-04"), day("2019-05-29"))]
    standings = {
        one.check: one for one in findings(Days(*days, filling={"age"}), Quality()) if one.standing != "passed"
    }
    assert standings["distribution"].standing == "warns"
    assert "the log does not yet go as far back as its window" in standings["distribution"].sentence
    assert judged(moved)["distribution"].standing == "blocks"


def test_the_nearer_of_yesterday_and_the_same_weekday_counts() -> None:
    weekend = day()
    weekend["samples"] = {"train": 3000, "eval": 400}
    last_saturday = copy.deepcopy(weekend)
    standings = [one.standing for one in found(weekend, day("2019-06-04"), last_saturday) if one.check == "volume"]
    assert standings == ["passed"]


WEEKLY = {
    "volume": changed("samples", {"train": 1000, "eval": 100}),
    "hours": shifted_by_eight_hours,
    "silent_hours": lost_morning,
    "age": changed("views/user/age_s_median", 360_000),
}


@pytest.mark.parametrize("check", WEEKLY)
def test_what_differs_between_weekdays_warns_until_a_day_of_the_same_weekday_is_there(check: str) -> None:
    monday, sunday = day(), day("2019-06-04")
    WEEKLY[check](monday)
    assert alarms(monday, sunday)[check].standing == "warns"
    assert judged(monday, sunday)[check].standing == "blocks"
    last_monday = copy.deepcopy(monday)
    assert set(alarms(monday, sunday, last_monday)) <= {"rate"}


def test_a_day_without_samples_fails_in_the_first_week_too() -> None:
    empty = day()
    empty["samples"] = {"train": 0, "eval": 0}
    first_week = alarms(empty, day("2019-06-04"))
    assert (first_week["volume"].standing, first_week["too_few"].standing) == ("blocks", "warns")


@pytest.mark.parametrize(
    ("rows", "positives", "standing"), [(900, 900, "blocks"), (50, 50, "blocks"), (49, 49, "warns"), (900, 0, "warns")]
)
def test_one_class_needs_no_statistics(rows: int, positives: int, standing: str) -> None:
    small = day()
    facts = {"count": rows, "sum": float(positives), "mean": positives / rows, "std": 0.0}
    small["labels"]["clicked"]["splits"] = {"train": facts}
    assert alarms(small)["one_class"].standing == standing


def test_a_view_that_is_hardly_ever_found_is_heard_of_on_a_first_day() -> None:
    first = day()
    first["samples"] = {"train": 400, "eval": 50}
    first["views"]["user"] |= {"match_rate": 0.0}
    first["views"]["article"] |= {"match_rate": 0.6}
    (finding,) = (one for one in found(first) if one.check == "matched" and one.standing != "passed")
    assert (finding.subject, finding.standing) == ("user", "warns")
    assert finding.sentence.startswith(
        "100.0% of the samples match no row of user, and there is no earlier day to compare with; "
    )


def test_a_feature_may_be_exempted_from_a_check_and_from_no_other() -> None:
    moved = day()
    moved["features"]["age"]["splits"]["train"] |= {"cdf": evenly(1000), "quantiles": {"0.5": 50_000.0}}
    exempt = Quality.model_validate({"distribution": {"without": ["age"]}})
    assert set(alarms(moved, day("2019-06-04"), quality=exempt)) == {"scale"}


def test_a_small_day_is_not_refused_for_its_noise() -> None:
    small = day()
    small["labels"] = {
        "clicked": {"binary": True, "splits": {"train": {"count": 100, "sum": 4.0, "mean": 0.04, "std": 0.2}}}
    }
    before = copy.deepcopy(small) | {"run_date": "2019-06-04"}
    before["labels"]["clicked"]["splits"]["train"] |= {"sum": 10.0, "mean": 0.1}
    assert "rate" not in judged(small, before)


def test_labels_that_are_not_final_are_not_compared_with_final_ones() -> None:
    early = day() | {"label_mature": False}
    early["labels"]["clicked"]["splits"] = {"train": {"count": 9000, "sum": 300.0, "mean": 1 / 30, "std": 0.2}}
    assert "rate" not in judged(early)
    assert judged(early, day("2019-06-04") | {"label_mature": False})["rate"].standing == "blocks"


def test_more_clicks_while_windows_are_open_than_when_all_were_closed_are_heard_of() -> None:
    early = day() | {"label_mature": False}
    early["labels"]["clicked"]["splits"] = {"train": {"count": 9000, "sum": 3000.0, "mean": 1 / 3, "std": 0.5}}
    assert judged(early)["rate"].standing == "warns"


def test_fewer_clicks_after_all_windows_closed_than_while_they_were_open_are_heard_of() -> None:
    final = day()
    final["labels"]["clicked"]["splits"] = {"train": {"count": 9000, "sum": 300.0, "mean": 1 / 30, "std": 0.2}}
    assert alarms(final, day("2019-06-04") | {"label_mature": False})["rate"].standing == "warns"


def test_a_reference_without_the_label_leaves_the_other_one_to_compare_with() -> None:
    final, same_weekday = day(), day("2019-05-29")
    final["labels"]["clicked"]["splits"] = {"train": {"count": 9000, "sum": 300.0, "mean": 1 / 30, "std": 0.2}}
    del same_weekday["labels"]["clicked"]
    finding = alarms(final, day("2019-06-04") | {"label_mature": False}, same_weekday)["rate"]
    assert (finding.subject, finding.standing) == ("clicked", "warns")


def test_rows_without_a_ttl_are_never_too_old() -> None:
    older = day()
    older["views"]["article"] |= {"age_s_median": 3_600_000}
    assert judged(older) == {}


def test_rows_that_are_older_on_mondays_are_compared_with_last_monday() -> None:
    monday, last_monday = day(), day("2019-05-29")
    for one in (monday, last_monday):
        one["views"]["user"] |= {"age_s_median": 3 * 86_400}
    standings = [one.standing for one in found(monday, day("2019-06-04"), last_monday) if one.check == "age"]
    assert standings == ["passed"]


def test_a_day_of_eval_is_compared_with_eval_where_the_day_before_had_train_as_well() -> None:
    before = day("2019-06-04")
    moved = number(cdf=evenly(1000))
    before["features"]["age"]["splits"] = {"train": moved, "eval": number()}
    assert "distribution" not in judged(of_eval_alone(day()), before)


def of_eval_alone(document: Day) -> Day:
    """A day without train, such as that of a test period."""
    document["samples"] = {"eval": 10_000}
    for entries in (document["features"], document["labels"]):
        for one in entries.values():
            one["splits"] = {"eval": one["splits"]["train"]}
    document["click_rate"]["by_split"] = {"eval": {"samples": 10_000, "positives": 1000}}
    return document


IN_TRAIN = ("missing", "constant", "nonfinite", "distribution", "values", "stability", "leak", "one_class")


@pytest.mark.parametrize(("check", "standing", "break_it", "said"), [one for one in BROKEN if one[0] in IN_TRAIN])
def test_a_day_without_train_is_judged_by_what_it_has(
    check: str, standing: str, break_it: Callable[[Day], None], said: str
) -> None:
    broken = day()
    break_it(broken)
    assert judged(of_eval_alone(broken))[check].standing == standing


def test_a_day_without_train_like_the_one_before_passes() -> None:
    assert judged(of_eval_alone(day())) == {}


@pytest.mark.parametrize(("now", "before", "rows"), [(0, 1, 20), (0, 3, 3000), (2, 0, 500)])
def test_some_clicks_or_none_are_chance_where_few_are_expected(now: int, before: int, rows: int) -> None:
    both = [day(), day("2019-06-04")]
    for document, clicks in zip(both, (now, before), strict=True):
        splits = {"train": {"count": rows, "sum": float(clicks), "mean": clicks / rows, "std": 0.1}}
        document["labels"] = {"clicked": {"binary": True, "splits": splits}}
    assert "rate" not in judged(*both)


def test_means_below_zero_are_compared_by_their_difference() -> None:
    both = [day(), day("2019-06-04")]
    for document, mean in zip(both, (-0.5, -0.501), strict=True):
        splits = {"train": {"count": 10_000, "sum": mean * 10_000, "mean": mean, "std": 1.0}}
        document["labels"] = {"score": {"binary": False, "splits": splits}}
    assert "rate" not in judged(*both)
    both[0]["labels"]["score"]["splits"]["train"]["mean"] = -2.0
    both[0]["labels"]["score"]["splits"]["train"]["sum"] = -20_000.0
    assert judged(*both)["rate"].standing == "blocks"


def test_a_feature_that_begins_to_say_something_warns() -> None:
    before = day("2019-06-04")
    before["features"]["age"]["splits"]["train"] |= {
        "min": 0.0,
        "max": 0.0,
        "nulls": 0,
        "cdf": {"at": [0.0], "under": [0.0], "below": [1.0]},
    }
    assert judged(day(), before)["distribution"].standing == "warns"


def test_a_match_that_is_found_for_all_at_last_warns() -> None:
    both = [day(), day("2019-06-04")]
    both[0]["features"]["channel"]["splits"]["train"] = ids({1: 1.0}, min=1, max=1, nulls=0)
    both[1]["features"]["channel"]["splits"]["train"] = ids({1: 0.95, 0: 0.05}, min=0, max=1, nulls=0)
    assert judged(*both)["constant"].standing == "warns"


def test_a_rare_flag_that_did_not_come_today_is_chance() -> None:
    both = [day(), day("2019-06-04")]
    both[0]["features"]["age"]["splits"]["train"] |= {"min": 0.0, "max": 0.0, "nulls": 0}
    both[1]["features"]["age"]["splits"]["train"] |= {
        "cdf": {"at": [0.0, 1.0], "under": [0.0, 0.999], "below": [0.999, 1.0]},
        "nulls": 0,
    }
    assert judged(*both)["constant"].standing == "warns"


def test_the_chance_in_a_distribution_is_that_of_its_values_and_not_of_the_rows() -> None:
    both = [day(), day("2019-06-04")]
    for document, at in zip(both, ([1.0, 2.0, 3.0], [1.5, 2.5, 3.5]), strict=True):
        document["features"]["age"] = feature(
            number(
                cdf={"at": at, "under": [0.0, 0.3, 0.6], "below": [0.3, 0.6, 1.0]},
                nulls=8997,
                values=3,
                values_looked_at=3,
                auc=None,
            )
        )
    assert "distribution" not in judged(*both)


def test_no_clicks_at_all_are_found_though_there_is_no_ratio() -> None:
    broken = day()
    broken["labels"]["clicked"]["splits"] = {"train": {"count": 9000, "sum": 0.0, "mean": 0.0, "std": 0.0}}
    assert judged(broken)["rate"].standing == "blocks"


def test_a_feature_that_was_constant_before_only_warns() -> None:
    both = [day(), day("2019-06-04")]
    for document in both:
        document["features"]["age"]["splits"]["train"] |= {"min": 3.0, "max": 3.0, "nulls": 0}
    assert judged(both[0], both[1])["constant"].standing == "warns"


def test_integers_that_are_codes_are_compared_by_value_as_well() -> None:
    both = [day(), day("2019-06-04")]
    for document, shares in zip(both, ({2: 0.5, 3: 0.5}, {1: 0.5, 2: 0.5}), strict=True):
        document["features"]["code"] = feature(ids(shares, cdf=number()["cdf"], quantiles={"0.5": 2}))
    assert judged(*both)["values"].standing == "blocks"


def test_a_limit_can_be_raised_and_a_check_switched_off() -> None:
    broken = day()
    broken["samples"] = {"train": 2500, "eval": 300}
    assert "volume" not in judged(broken, limits=Quality(volume=Limits(warn=None, fail=5)))
    assert "volume" not in judged(broken, limits=Quality.model_validate({"volume": "off"}))
    assert judged(broken, limits=Quality.model_validate({"volume": {"fail": None}}))["volume"].standing == "warns"


def test_what_is_or_is_not_needs_no_figure() -> None:
    broken = day()
    broken["contract"] = "beef"
    assert judged(broken)["contract"].sentence == "The contract differs from that of 2019-06-04."


def test_a_sentence_says_how_much_was_allowed() -> None:
    broken = day()
    broken["duplicates"]["ids"] = 2
    assert judged(broken)["same_ids"].sentence == (
        "2 samples share their impression_id with another sample; same_ids is 0.0002, the limit is 1e-06."
    )


def test_what_is_accepted_blocks_nothing_and_what_warns_stays_a_warning() -> None:
    broken = day()
    broken["duplicates"]["ids"] = 2
    broken["contract"] = "beef"
    accepted = found(broken, day("2019-06-04"), day("2019-05-29"), accepted=("same_ids", "contract", "volume"))
    standings = {one.check: one.standing for one in reversed(accepted)}
    assert (standings["same_ids"], standings["contract"], standings["volume"]) == ("accepted", "warns", "passed")


def test_the_gravest_findings_come_first() -> None:
    broken = day()
    broken["duplicates"]["ids"] = 2
    broken["contract"] = "beef"
    broken["samples"] = {"train": 2500, "eval": 300}
    standings = [one.standing for one in found(broken, day("2019-06-04"), day("2019-05-29"), accepted=("volume",))]
    assert standings[:3] == ["blocks", "accepted", "warns"]
    assert set(standings[3:]) == {"passed"}
