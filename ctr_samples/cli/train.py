"""``ctr-samples train``: train a click model on published samples."""

from enum import StrEnum
from typing import Annotated

import typer

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.errors import UsageError
from ctr_samples.training.models import MODELS

Model = StrEnum("Model", list(MODELS))  # type: ignore[misc]
DEFAULT_MODEL = Model("logistic")


def train(
    samples: Annotated[str, typer.Option(help="The output directory of a sample set.")],
    date: Annotated[str | None, typer.Option(help="The day to train on.")] = None,
    first: Annotated[str | None, typer.Option("--from", help="The first of several days to train on.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last of these days.")] = None,
    model: Annotated[Model, typer.Option(help="The kind of model.")] = DEFAULT_MODEL,
    label: Annotated[str | None, typer.Option(help="The label to predict; default: the first.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes; default: depends on the model.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples per step, over all workers.")] = 256,
    learning_rate: Annotated[float | None, typer.Option(help="Default: depends on the model.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="For initial weights and sample order.")] = 7,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Correct for sampling instead of weighting.")] = False,
    mask: Annotated[
        list[str] | None, typer.Option("--mask", help="Only samples with this mask, or 0/1 label, count. Repeatable.")
    ] = None,
    checkpoints: Annotated[str | None, typer.Option(help="Directory to keep checkpoints in and resume from.")] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 1000,
    export: Annotated[str | None, typer.Option(help="Directory for the next version of the model.")] = None,
    eval_date: Annotated[str | None, typer.Option(help="Day to evaluate on; default: the next one.")] = None,
    against: Annotated[
        str | None, typer.Option(help="An exported model to compare with on the same samples, as build/model/1.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Gone since 0.2.", hidden=True)] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; 1 makes a run reproducible bit for bit.")] = None,
    debug: Debug = False,
) -> None:
    """Train on published samples, resume from a checkpoint, evaluate and export. For several workers set TF_CONFIG."""
    with errors_in_words(debug) as console:
        if (date is None) == (first is None) or (first is None) != (last is None):
            raise UsageError("Give `--date DAY`, or `--from DAY` and `--to DAY`.")
        with console.status("reading and training") as status:
            from ctr_samples.training.quiet import import_tensorflow

            import_tensorflow()
            from ctr_samples.training.fit_options import FitOptions, days_between
            from ctr_samples.training.fitting import fit
            from ctr_samples.training.loop import use_threads

            use_threads(threads)
            options = FitOptions(
                samples=samples,
                days=days_between(samples, first or date or "", last or date or ""),
                model=model.value,
                label=label,
                epochs=epochs,
                batch_size=batch_size,
                learning_rate=learning_rate,
                seed=seed,
                calibrate=calibrate,
                masks=tuple(mask or ()),
                checkpoints=checkpoints,
                checkpoint_every=checkpoint_every,
                export=export,
                eval_date=eval_date,
                against=against,
                by=by,
                threads=threads,
            )
            report = fit(options, on_step=lambda done, of: status.update(f"step {done:,} of {of:,}"))
        if report is not None:
            console.print(report.render())
