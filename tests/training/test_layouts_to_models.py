"""Samples of every layout train a model, or are refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctr_samples.errors import InputError
from ctr_samples.training.exporting import evaluate_export
from ctr_samples.training.fit_options import FitOptions
from ctr_samples.training.fitting import fit
from tests.support.kinds_of_columns import CONTRACTS, rows_for
from tests.support.small_days import published

pytestmark = pytest.mark.slow

DAY = "2019-06-05"
LEFT_OUT = {
    "columns": ("text", "texts", "words", "ids", "floats"),
    "sequence": ("text", "texts", "words", "ids", "floats", "clicks", "vectors", "lists", "names"),
    "legacy_121": (),
}


@pytest.mark.parametrize("layout", LEFT_OUT)
def test_a_model_is_trained_on_samples_of_a_layout_and_exported(layout: str, tmp_path: Path) -> None:
    contract = CONTRACTS[layout]
    published(tmp_path / "samples", contract, lambda split, first: rows_for(contract, first, 50))
    samples, export = str(tmp_path / "samples"), str(tmp_path / "export")
    report = fit(FitOptions(samples=samples, days=(DAY,), model="wide_deep", epochs=1, export=export))
    assert report is not None
    assert report.left_out == LEFT_OUT[layout]
    assert report.exported is not None
    evaluation = evaluate_export(report.exported, samples, date=DAY, split="eval")
    assert evaluation.log_loss == pytest.approx(report.splits["eval"].log_loss, abs=1e-6)


def test_the_layout_sparse_is_refused_in_words(tmp_path: Path) -> None:
    contract = CONTRACTS["sparse"]
    published(tmp_path, contract, lambda split, first: rows_for(contract, first, 50))
    with pytest.raises(InputError, match="expected some, in the layout `columns`, `sequence` or `dense`"):
        fit(FitOptions(samples=str(tmp_path), days=(DAY,)))
