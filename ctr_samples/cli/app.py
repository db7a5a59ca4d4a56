"""All commands in one program."""

from __future__ import annotations

import typer

from ctr_samples.cli import explain as explanation
from ctr_samples.cli import fit as fitted
from ctr_samples.cli import generate as generation
from ctr_samples.cli import outputs
from ctr_samples.cli import report as reports

app = typer.Typer(
    help="Training-ready TFRecord shards from impression and click logs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(generation.generate)
app.command()(fitted.fit)
app.command(name="config")(generation.config_command)
app.command()(explanation.explain)
for command in (
    reports.report,
    reports.compare,
    outputs.verify,
    outputs.show,
    outputs.paths,
    outputs.history,
    outputs.clean,
    outputs.rollback,
):
    app.command()(command)


def main() -> None:
    """Entry point of ``ctr-samples``."""
    app(prog_name="ctr-samples")
