"""Make and publish the samples of a day: spark-submit jobs/generate_samples.py --config FILE --date DAY.

``--due`` makes what a night has to make, ``--from DAY --to DAY`` several days. Exit codes: 0 published, or already published;
2 usage or configuration; 3 refused input; 4 another run was first; 5 state of the publish unknown; 1 anything else. Of several
days it is that of the worst.
"""

import typer

from ctr_samples.cli import generate

if __name__ == "__main__":
    typer.run(generate)
