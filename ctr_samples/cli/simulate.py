"""``ctr-samples simulate``: logs and feature tables of an article feed with known click probabilities. No Spark."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress
from rich.table import Column, Table

from ctr_samples.cli.messages import Debug, errors_in_words

if TYPE_CHECKING:
    from ctr_samples.simulator import SimulationSummary


def simulate(
    *,
    out: Annotated[Path, typer.Option(help="Directory to write; an earlier simulation in it is replaced.")],
    days: Annotated[int, typer.Option(help="Days with impressions.")] = 3,
    start: Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help="First day.")] = datetime(2019, 6, 4),
    impressions: Annotated[int, typer.Option(help="Impressions per day.")] = 100_000,
    users: Annotated[int, typer.Option(help="Users; 0 scales with the impressions.")] = 0,
    articles: Annotated[int, typer.Option(help="Articles at the start; 0 scales with the impressions.")] = 0,
    seed: Annotated[int, typer.Option(help="The same options and seed give the same bytes.")] = 0,
    click_rate: Annotated[float, typer.Option(help="Impressions clicked within the label window.")] = 0.10,
    label_window_s: Annotated[int, typer.Option(help="Label window in seconds.")] = 1800,
    late_click_rate: Annotated[float, typer.Option(help="Clicks after the label window.")] = 0.04,
    repeat_rate: Annotated[float, typer.Option(help="Exposures sent again within 30 s.")] = 0.02,
    list_size: Annotated[int, typer.Option(help="Articles of each list; 0 for 1 to 6.")] = 0,
    cold_user_rate: Annotated[float, typer.Option(help="Users without a profile.")] = 0.05,
    orphan_click_rate: Annotated[float, typer.Option(help="Clicks without an impression.")] = 0.005,
    malformed_rate: Annotated[float, typer.Option(help="Malformed lines.")] = 0.0005,
    broken: Annotated[str, typer.Option(help="A way to break the logs of the last day; see docs/quality.md.")] = "",
    force: Annotated[bool, typer.Option(help="Replace these tables in a directory that holds other files.")] = False,
    debug: Debug = False,
) -> None:
    """Write action logs, profiles, vectors and the true click probabilities of a simulated article feed."""
    with errors_in_words(debug) as console:
        from ctr_samples.simulator import SimulationSpec
        from ctr_samples.simulator import simulate as write_logs

        spec = SimulationSpec(
            start=start.date(),
            days=days,
            impressions=impressions,
            users=users,
            articles=articles,
            seed=seed,
            click_rate=click_rate,
            label_window_s=label_window_s,
            late_click_rate=late_click_rate,
            repeat_rate=repeat_rate,
            list_size=list_size,
            cold_user_rate=cold_user_rate,
            orphan_click_rate=orphan_click_rate,
            malformed_rate=malformed_rate,
            broken=broken,
        )
        with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
            task = bar.add_task("impressions", total=days * impressions)
            summary = write_logs(spec, out, force=force, progress=lambda done: bar.advance(task, done))
    console.print(f"simulated in {out}", soft_wrap=True)
    console.print(_shown(summary))


def _shown(summary: SimulationSummary) -> Table:
    table = Table(Column(), Column(justify="right"), box=None, show_header=False)
    for name, value in vars(summary).items():
        text = f"{value:,}" if isinstance(value, int) else "none" if value is None else f"{value:.4f}"
        table.add_row(name.replace("_", " "), text)
    return table
