"""``python -m ctr_samples.cli``."""

from ctr_samples.cli import main

main()
