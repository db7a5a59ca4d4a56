"""``ctr-samples images``: folders of images as TFRecords, one folder for each class."""

from enum import StrEnum
from typing import Annotated

import typer

from ctr_samples.addresses import check_address, check_apart
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.job.progress import RunProgress
from ctr_samples.terminal import say, stderr_console


class Unreadable(StrEnum):
    """What an image that cannot be read leads to."""

    fail = "fail"
    skip = "skip"


class Mode(StrEnum):
    """What happens to images that are published there already."""

    errorifexists = "errorifexists"
    overwrite = "overwrite"


def images(
    input_: Annotated[str, typer.Option("--input", help="Directory with one folder of JPEG and PNG files per class.")],
    output: Annotated[str, typer.Option(help="Directory or URL of the table.")],
    validation: Annotated[float, typer.Option(help="Share of images for validation, chosen by their SHA-256.")] = 0.1,
    unreadable: Annotated[
        Unreadable, typer.Option(help="Fail on images that cannot be read, or skip.")
    ] = Unreadable.fail,
    max_unreadable_rate: Annotated[float, typer.Option(help="With skip: the share that may be skipped.")] = 0.01,
    mode: Annotated[Mode, typer.Option(help="Refuse or replace an existing table.")] = Mode.errorifexists,
    shard_size: Annotated[str, typer.Option(help="Target size of a shard.")] = "128MiB",
    debug: Debug = False,
) -> None:
    """Write image folders as train and validation records, published once. Prints the path of the manifest."""
    console = stderr_console()
    with errors_in_words(console, debug):
        with RunProgress(console) as progress:
            from ctr_samples.converters.images import write_images
            from ctr_samples.sparksql.observations import Progress
            from ctr_samples.sparksql.session import session_of_command
            from ctr_samples.tfrecord.options import parse_options

            options = parse_options({"path": output, "shardSize": shard_size})
            check_address(input_)  # it becomes the name of the application
            check_apart(input_, output)
            with session_of_command(f"images {input_}") as spark:
                progress.follow(spark)
                progress.stage("decoding and writing images")
                written = Progress.of(spark)
                progress.writing(written)
                report = write_images(
                    spark,
                    input_,
                    output,
                    validation=validation,
                    unreadable=unreadable.value,
                    max_unreadable_rate=max_unreadable_rate,
                    mode=mode.value,
                    shard_size=options.shard_size,
                    progress=written,
                )
        console.print(report.render(), soft_wrap=True)
        say(report.manifest)
