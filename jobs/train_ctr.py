"""Train a click model: python jobs/train_ctr.py --samples DIRECTORY --date DAY. The same as ``ctr-samples train``."""

import typer

from ctr_samples.cli import train

if __name__ == "__main__":
    typer.run(train)
