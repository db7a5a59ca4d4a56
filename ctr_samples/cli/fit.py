"""``ctr-samples fit``: fit a new version of vocabularies, moments and quantiles."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctr_samples.cli.generate import ConfigPath, Overrides, spark_for
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.terminal import say
from ctr_samples.config import load_config
from ctr_samples.periods import parse_day
from ctr_samples.vocabulary import FittedState


def fit(
    config: ConfigPath,
    through: Annotated[str, typer.Option("--through", help="The last day to fit on; later days may use the result.")],
    days: Annotated[int | None, typer.Option("--days", min=1, help="How many days; default: `fitted.days`.")] = None,
    set_: Overrides = None,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="Start again with new ids; older samples do not mix with newer ones.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Fit vocabularies, moments and quantiles on the training rows of some days. Prints the path of the new version."""
    with errors_in_words(debug) as console:
        last = parse_day(through)
        loaded = load_config(config, set_ or ())
        with spark_for(loaded.config, f"ctr-samples fit {loaded.config.name} {last}", console) as (spark, progress):
            from ctr_samples.job import fit as fitting

            progress.stage("counting training days")
            state = fitting.fit(spark, loaded, last, days=days, afresh=afresh, reporter=progress)
        console.print(growth_report(state))
        fitted = loaded.config.fitted
        say(f"{fitted.path if fitted else ''}/versions/{state.version:08d}.json")


def growth_report(state: FittedState) -> RenderableType:
    """Return the tokens added by a version, and the share of observed tokens that have an id."""
    days = state.days[0] if len(state.days) == 1 else f"{state.days[0]} to {state.days[-1]}"
    head = Text.assemble(("Fitted ", "bold green"), (state.name, "bold"), f", version {state.version}, on {days}\n")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("vocabulary", "tokens", "new", "room left", "coverage"):
        table.add_column(column, justify="left" if column == "vocabulary" else "right")
    for name, growth in state.growth.items():
        now = growth.before + growth.added
        room = f"{growth.capacity - now:,}" + (f" ({growth.left_out:,} left out)" if growth.left_out else "")
        table.add_row(name, f"{now:,}", f"{growth.added:,}", room, f"{growth.coverage:.2%}")
    fitted = [*state.moments, *state.boundaries]
    note = Text(f"  Fitted once and kept: {', '.join(fitted)}.") if fitted else Text("")
    return Group("", head, *([table] if state.growth else []), note)
