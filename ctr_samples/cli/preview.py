"""``ctr-samples preview``: a few samples before the first run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ctr_samples.cli.generate import ConfigPath, Day, Overrides, spark_for
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.outputs import print_examples
from ctr_samples.config import load_config
from ctr_samples.terminal import say, stderr_console


def preview(
    config: ConfigPath,
    date: Day,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many samples.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print each sample as a line of JSON.")] = False,
    set_: Overrides = None,
    debug: Debug = False,
) -> None:
    """Show a few samples of a day as a run would make them, without writing anything."""
    console = stderr_console()
    with errors_in_words(console, debug):
        from ctr_samples.periods import parse_period

        run_date = parse_period(date)
        loaded = load_config(config, set_ or ())
        with spark_for(loaded.config, f"ctr-samples preview {loaded.config.name}", console) as (spark, progress):
            from ctr_samples.job.preview import preview as previewed

            samples = previewed(spark, loaded, run_date, limit, reporter=progress)
            progress.stage("joining")
            rows = samples.toArrow().to_pylist()
        if not as_json:
            print_examples(rows)
            return
        for row in rows:
            say(json.dumps(row, ensure_ascii=False, default=_as_text))


def _as_text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
