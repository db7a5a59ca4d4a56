"""One page of docs/recipes as a program: ``python -m tests.deployment.run_page PAGE``, in the directory where it may write."""

import sys
from pathlib import Path

from ctr_samples.sparksql.session import session_of_command
from tests.support.pages import blocks


def run_page(page: Path) -> None:
    with session_of_command(page.stem) as spark:
        names = {"__name__": "recipe", "spark": spark}
        for program in blocks(page):
            exec(compile(program, str(page), "exec"), names)  # noqa: S102


if __name__ == "__main__":  # worker processes import this module
    run_page(Path(sys.argv[1]))
