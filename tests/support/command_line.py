"""The command line in this process."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer.testing
from typer.testing import CliRunner, Result

from ctr_samples.cli import app

# Typer makes all commands anew for each call, which takes longer than most of them.
typer.testing._get_command = cache(typer.testing._get_command)


def invoke(*arguments: object, **more: Any) -> Result:
    """What a call of ``ctr-samples`` says, and its exit code; ``more`` goes to Typer's runner."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **more)
