"""Entry point of ``python -m ctr_samples``."""

from ctr_samples.cli import main

main()
