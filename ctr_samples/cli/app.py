"""All commands in one program."""

from __future__ import annotations

import typer

from ctr_samples.cli.explain import explain
from ctr_samples.cli.fit import fit
from ctr_samples.cli.generate import config_command, generate
from ctr_samples.cli.outputs import clean, history, paths, rollback, show, verify
from ctr_samples.cli.preview import preview
from ctr_samples.cli.report import compare, report
from ctr_samples.cli.state import state
from ctr_samples.cli.status import status

app = typer.Typer(
    help="Training-ready TFRecord shards from impression and click logs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(generate)
app.command()(fit)
app.command(name="config")(config_command)
for command in (preview, explain, status, report, compare, verify, show, paths, history, clean, rollback, state):
    app.command()(command)


def main() -> None:
    """Entry point of ``ctr-samples``."""
    app(prog_name="ctr-samples")
