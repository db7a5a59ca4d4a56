"""A fit on published samples learns what is there to learn, and refuses what it cannot learn from."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from ctr_samples.errors import InputError
from ctr_samples.training.fitting import fit_day


def test_a_logistic_regression_beats_the_constant_on_both_splits(samples: Path) -> None:
    report = fit_day(str(samples), "2019-06-05", epochs=10, batch_size=32)
    assert [s.samples for s in report.splits.values()] == [400, 100]
    for scores in report.splits.values():
        assert scores.auc is not None
        assert scores.auc > 0.8
        assert scores.log_loss < scores.constant_log_loss
    console = Console(width=100, record=True, quiet=True)
    console.print(report.render())


def test_a_label_that_is_not_there_is_named(samples: Path) -> None:
    with pytest.raises(InputError, match="There is no 0/1 label 'shared'; the samples have clicked."):
        fit_day(str(samples), "2019-06-05", label="shared")
