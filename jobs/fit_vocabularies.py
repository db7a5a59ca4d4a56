"""Fit vocabularies, moments and quantiles: spark-submit jobs/fit_vocabularies.py --config FILE --through DAY [--days N].

Exit codes: 0 published; 2 usage or configuration; 3 refused input; 4 another run was first; 5 state of the publish unknown;
1 anything else.
"""

import typer

from ctr_samples.cli import fit

if __name__ == "__main__":
    typer.run(fit)
