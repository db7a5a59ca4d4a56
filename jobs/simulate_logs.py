"""Simulate logs and feature tables: python jobs/simulate_logs.py --out DIRECTORY. The same as ``ctr-samples simulate``."""

import typer

from ctr_samples.cli import simulate

if __name__ == "__main__":
    typer.run(simulate)
