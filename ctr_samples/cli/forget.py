"""``ctr-samples forget``: remove the samples of some users, and search for what is left of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ctr_samples.cli.generate import Overrides, spark_for
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.outputs import EveryDay, OutputPath, opened
from ctr_samples.cli.terminal import say
from ctr_samples.config import load_config
from ctr_samples.errors import UsageError
from ctr_samples.periods import Period, parse_period

if TYPE_CHECKING:
    from ctr_samples.job.forget import Values
    from ctr_samples.job.forget_search import Search
    from ctr_samples.shards import Storage

LEFT = 3
"""Exit code of ``--check`` if users are left somewhere."""


def forget(
    output: OutputPath,
    key: Annotated[
        str,
        typer.Option(
            "--key", help="The column of the samples that says whose they are; with --config, a key of impressions."
        ),
    ],
    values: Annotated[
        Path,
        typer.Option("--values", help="A file with one value of it in each line, as the samples or the logs have it."),
    ],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Find the impressions of the users in the logs; starts Spark.")
    ] = None,
    set_: Overrides = None,
    date: EveryDay = None,
    keep: Annotated[int, typer.Option("--keep", min=1, help="How many generations of a day to keep.")] = 3,
    check: Annotated[
        bool,
        typer.Option("--check", help="Remove nothing: search all that runs wrote, and exit with 3 if it has them."),
    ] = False,
    models: Annotated[
        list[Path] | None,
        typer.Option(
            "--models", help="Name each exported model below this directory that was trained on their samples."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Publish each day that has samples of some users again, without these. Prints the path of each new manifest.

    Example: ctr-samples forget samples/feed --config feed.yaml --key user --values users.txt
    """
    with errors_in_words(debug) as console:
        from ctr_samples.job.forget import Values
        from ctr_samples.job.forget_search import Search, models_with
        from ctr_samples.shards import published_days

        if config is None and set_:
            raise UsageError("--set changes a configuration; give it with --config.")
        storage, sought = opened(output), Values.read(values)
        days = published_days(storage) if date is None else [parse_period(date)]
        if config is None:
            search = Search(storage, key, {day: list(sought.lines) for day in days})
        else:
            search = _in_logs(console, config, set_ or (), storage, days, key, sought)
        left = _search(console, search) if check else _forget(console, output, search, sought, keep)
        for sentence in models_with(search, models or ()):
            console.print(sentence, markup=False, soft_wrap=True)
        if left:
            raise typer.Exit(LEFT)


def _in_logs(
    console: Console,
    config: Path,
    changes: Sequence[str],
    storage: Storage,
    days: Sequence[Period],
    key: str,
    sought: Values,
) -> Search:
    """Find the users' impressions in the logs. Tells how many users have none."""
    from ctr_samples.job.forget import check_key, impressions_of
    from ctr_samples.job.forget_search import Search, Users, id_columns
    from ctr_samples.shards import require_manifest

    loaded = load_config(config, changes)
    manifests = [require_manifest(storage, day) for day in days]
    with spark_for(loaded.config, f"ctr-samples forget {loaded.config.name}", console) as (spark, progress):
        check_key(loaded, key, manifests)
        logged = impressions_of(spark, loaded, days, key, sought.looked_for, progress)
    if unmatched := sought.check(frozenset().union(*logged.values()), "impression"):
        console.print(unmatched, markup=False, soft_wrap=True)
    ids = {day: [str(n) for user in sought.lines for n in of.get(user, ())] for day, of in logged.items()}
    column = next((name for manifest in manifests for name in id_columns(manifest)), "impression_id")
    return Search(storage, column, ids, Users(key, tuple(sought.lines)))


def _forget(console: Console, output: str, search: Search, sought: Values, keep: int) -> bool:
    from ctr_samples.job.forget import find, forget, remaining
    from ctr_samples.shards.clean import Retention
    from ctr_samples.shards.naming import manifest_path

    storage, values, users = search.storage, search.values, search.users
    looked_for = values if users else dict.fromkeys(values, sought.looked_for)
    found = [find(storage, day, search.column, looked_for[day]) for day in values]
    unmatched = users or sought.check(frozenset().union(*(one.now | one.before for one in found)))
    gone = days = 0
    for one in found:
        done = forget(storage, one, search.column, values[one.manifest.day], Retention(keep), users)
        if done.samples:
            gone, days = gone + done.samples, days + 1
            say(storage.locate(manifest_path(done.manifest.day, done.manifest.generation)))
    console.print(f"Forgot {gone:,} sample(s) of {days:,} day(s).")
    if users is not None:
        console.print(_in_words(values, sum(len(one.now) for one in found)), soft_wrap=True)
    elif unmatched:
        console.print(unmatched, soft_wrap=True)
    if gone or any(one.before for one in found):
        console.print(
            f"Earlier generations still have them; `ctr-samples clean {output} --keep 1` removes those of a day ago.",
            soft_wrap=True,
        )
        for sentence in dict.fromkeys(s for one in found for s in remaining(one.manifest.config)):
            console.print(sentence, soft_wrap=True)
    return False


def _in_words(ids: Mapping[Period, Sequence[str]], samples: int) -> str:
    logged = sum(map(len, ids.values()))
    others = logged - samples
    return f"The logs have {logged:,} impression(s) of them" + (
        f"; {others:,} of these are no samples: they were dropped, down-sampled, or forgotten before."
        if others
        else "."
    )


def _search(console: Console, search: Search) -> bool:
    """Print each place that was searched, and what is left there. Return whether anything is left."""
    every = list(search.looked())
    for one in every:
        say(f"{one.place}: {one.left or 'nothing'}")
    left = sum(bool(one.left) for one in every)
    console.print(
        f"Looked at {len(every):,} place(s); {f'{left:,} of them have the users still' if left else 'none has the users'}."
    )
    return bool(left)
