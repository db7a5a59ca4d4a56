"""The program with all its commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ctr_samples import __version__
from ctr_samples.cli.convert import images, libsvm
from ctr_samples.cli.demo import demo, where
from ctr_samples.cli.explain import explain
from ctr_samples.cli.fit import fit
from ctr_samples.cli.forget import forget
from ctr_samples.cli.generate import config_command, config_diff, generate
from ctr_samples.cli.infer import infer
from ctr_samples.cli.init import init
from ctr_samples.cli.outputs import clean, history, paths, rollback, show, verify
from ctr_samples.cli.pack import pack
from ctr_samples.cli.preview import preview
from ctr_samples.cli.report import compare, flips, report
from ctr_samples.cli.served import compare_served
from ctr_samples.cli.simulate import simulate
from ctr_samples.cli.status import features, partials, status, trends
from ctr_samples.cli.terminal import say
from ctr_samples.cli.train import train

GROUPS: dict[str, dict[str, Callable[..., None]]] = {
    "Begin": {"demo": demo, "simulate": simulate, "where": where},
    "Configure": {"init": init, "config": config_command, "config diff": config_diff, "preview": preview, "fit": fit},
    "Make samples": {"generate": generate, "status": status, "pack": pack, "images": images, "libsvm": libsvm},
    "Look at samples": {
        "report": report,
        "compare": compare,
        "flips": flips,
        "trends": trends,
        "features": features,
        "explain": explain,
        "compare-served": compare_served,
        "show": show,
        "verify": verify,
        "infer": infer,
        "paths": paths,
    },
    "Train": {"train": train},
    "Maintain samples": {
        "history": history,
        "rollback": rollback,
        "clean": clean,
        "partials": partials,
        "forget": forget,
    },
}
"""Commands grouped by task. A name of two words is a command of a command."""

app = typer.Typer(
    help="Training-ready TFRecord shards from impression and click logs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for group, commands in GROUPS.items():
    for name, command in commands.items():
        inner = typer.Typer()
        for other in (one for one in commands if one.startswith(f"{name} ")):
            inner.command(other.removeprefix(f"{name} "))(commands[other])
        if inner.registered_commands:
            inner.callback(invoke_without_command=True)(command)
            app.add_typer(inner, name=name, rich_help_panel=group)
        elif " " not in name:
            app.command(name, rich_help_panel=group)(command)


def _print_version(asked: bool) -> None:
    if asked:
        say(f"ctr-samples {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Training-ready TFRecord shards from impression and click logs."""


def main() -> None:
    """Run ``ctr-samples``."""
    app(prog_name="ctr-samples")
