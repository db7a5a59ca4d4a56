"""Every impression is accounted for, or the run fails and says what did not add up."""

from __future__ import annotations

import pytest

from ctr_samples.errors import AccountingError
from ctr_samples.job.accounting import Accounting


def test_counts_that_add_up_pass_and_are_kept() -> None:
    balanced = Accounting(impressions=10, dropped={"repeated": 2, "no_article": 1}, joined=7, written=7)
    balanced.check()
    assert balanced.to_dict() == {"impressions": 10, "samples": 7, "repeated": 2, "no_article": 1}


@pytest.mark.parametrize(
    ("joined", "written"),
    [(8, 8), (7, 6), (6, 7), (0, 0)],
)
def test_one_sample_too_many_or_too_few_at_any_witness_fails(joined: int, written: int) -> None:
    with pytest.raises(AccountingError) as caught:
        Accounting(10, {"repeated": 2, "no_article": 1, "no_time": 0}, joined, written).check()
    assert str(caught.value).startswith(
        f"Of 10 impressions (2 repeated, 1 no_article dropped) 7 should have become samples, but {joined} left the joins "
        f"and {written} were written. Nothing was published"
    )
