"""Train a logistic regression on the samples of one day: python jobs/train_ctr.py --samples DIRECTORY --date DAY."""

from typing import Annotated

import typer


def train(
    samples: Annotated[str, typer.Option(help="The output directory of a sample set.")],
    date: Annotated[str, typer.Option(help="The day to train on.")],
    label: Annotated[str | None, typer.Option(help="Which label; default: the first.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the train split.")] = 20,
    debug: Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")] = False,
) -> None:
    """Read the train split with tf.data, fit, and score the eval split."""
    from ctr_samples.cli import errors_in_words
    from ctr_samples.progress import stderr_console

    console = stderr_console()
    with errors_in_words(console, debug):
        with console.status("reading and training"):
            from ctr_samples.training.quiet import import_tensorflow

            import_tensorflow()
            from ctr_samples.training.fitting import fit_day

            report = fit_day(samples, date, label=label, epochs=epochs)
        console.print(report.render())


if __name__ == "__main__":
    typer.run(train)
