"""What is given to the functions of the trainer wrongly: one sentence, before anything is read."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.errors import UsageError
from ctr_samples.training.exporting import evaluate_export, export
from ctr_samples.training.fit_options import FitOptions, days_between
from ctr_samples.training.fitting import fit
from ctr_samples.training.models import fields_of
from ctr_samples.training.preparation import FeatureSteps

DAY, NEXT = "2019-06-05", "2019-06-06"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"samples": 3}, "`samples` is 3; expected a path or URL, as text or as pathlib.Path."),
        ({"samples": b"out"}, "`samples` is b'out'; expected a path or URL"),
        ({"samples": None}, "`samples` is None; expected a path or URL"),
        ({"days": DAY}, "`days` is '2019-06-05'; expected a list of one or more different days."),
        ({"days": 3}, "`days` is 3; expected a list of one or more different days."),
        ({"days": None}, "`days` is None; expected a list of one or more different days."),
        ({"days": (20190605,)}, "The date is 20190605; expected a day"),
        ({"model": ["fm"]}, r"There is no model \['fm'\]; expected one of logistic"),
        ({"label": 1}, "`label` is 1; expected the name of a label, or None."),
        ({"by": "city"}, "--by is gone since 0.2: train with --export, and group the scores of the exported model"),
        ({"epochs": "2"}, "`epochs` is '2'; expected a whole number, 1 or more, or None."),
        ({"batch_size": None}, "`batch_size` is None; expected a whole number, 1 or more."),
        ({"batch_size": 2.5}, "`batch_size` is 2.5; expected a whole number"),
        ({"seed": "7"}, "`seed` is '7'; expected a whole number, 0 or more."),
        ({"learning_rate": "0.1"}, "`learning_rate` is '0.1'; expected a number above 0."),
        ({"checkpoints": 3}, "`checkpoints` is 3; expected a path or URL"),
        ({"export": ["out"]}, r"`export` is \['out'\]; expected a path or URL"),
        ({"export": "s3://b/x"}, "`export` is s3://b/x; expected a directory in a file system"),
        ({"checkpoint_every": "9"}, "`checkpoint_every` is '9'; expected a whole number, 1 or more."),
        ({"eval_date": 3}, "The date is 3; expected a day"),
        ({"threads": True}, "`threads` is True; expected a whole number, 1 or more, or None."),
    ],
)
def test_options_of_another_type_are_refused_in_one_sentence(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        FitOptions(**{"samples": "out", "days": (DAY,), **more})


def test_options_may_be_paths_and_dates_and_are_kept_as_text() -> None:
    given = {"samples": Path("out"), "days": [date(2019, 6, 5)], "eval_date": date(2019, 6, 6), "export": Path("x")}
    as_text = {"samples": "out", "days": (DAY,), "eval_date": NEXT, "export": "x"}
    assert FitOptions(**given) == FitOptions(**as_text)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", ["out", Path("out"), None, {"samples": "out"}])
def test_only_options_can_be_fitted(options: Any) -> None:
    with pytest.raises(UsageError, match="`options` is .*; expected the FitOptions of the training"):
        fit(options)


@pytest.mark.parametrize("first", [3, None])
def test_days_between_what_are_no_days_are_refused(first: Any) -> None:
    with pytest.raises(UsageError, match="expected a day"):
        days_between("out", first, DAY)


@pytest.mark.parametrize(
    ("path", "samples", "more", "sentence"),
    [
        (3, "out", {}, "`path` is 3; expected a path or URL"),
        (None, "out", {}, "`path` is None; expected a path or URL"),
        ("export/1", 3, {}, "`samples` is 3; expected a path or URL"),
        ("export/1", "out", {"date": 3}, "The date is 3; expected a day"),
        ("export/1", "out", {"batch_size": "4"}, "`batch_size` is '4'; expected a whole number"),
    ],
)
def test_arguments_of_another_type_are_refused_in_one_sentence(
    path: Any, samples: Any, more: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        evaluate_export(path, samples, **{"date": "2019-06-05", "split": "eval", **more})


@pytest.mark.parametrize("function", [FeatureSteps, fields_of])
@pytest.mark.parametrize("contract", ["out", Path("out"), None, {}])
def test_a_contract_is_no_path(function: Any, contract: Any) -> None:
    with pytest.raises(UsageError, match="`contract` is .*; expected the ExampleContract of the samples"):
        function(contract, **({"tokens": {}} if function is FeatureSteps else {}))


def test_only_a_model_can_be_exported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`model` is 'fm'; expected the ClickModel that was trained"):
        export("fm", tmp_path / "out", {})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="`directory` is 3; expected a path or URL"):
        export("fm", 3, {})  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
