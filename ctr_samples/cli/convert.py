"""``ctr-samples images`` and ``libsvm``: conversion of image folders and of libsvm or libfm text to TFRecords."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ctr_samples.addresses import check_address, check_apart
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.terminal import say
from ctr_samples.job.progress import RunProgress


class Unreadable(StrEnum):
    """What to do about an image that cannot be read."""

    fail = "fail"
    skip = "skip"


class Mode(StrEnum):
    """What to do about images that are already published there."""

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
    with errors_in_words(debug) as console:
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


class AppendMode(StrEnum):
    """What to do about records that are already published there."""

    errorifexists = "errorifexists"
    append = "append"
    overwrite = "overwrite"


def libsvm(
    input_: Annotated[str, typer.Option("--input", help="A file, directory or glob of lines `label index:value ...`.")],
    output: Annotated[str, typer.Option(help="Directory or URL of the table.")],
    size: Annotated[int | None, typer.Option(help="Number of features; default: from the largest index.")] = None,
    zero_based: Annotated[bool, typer.Option("--zero-based", help="Indices count from 0, as in libfm.")] = False,
    mode: Annotated[
        AppendMode, typer.Option(help="Refuse, extend or replace an existing table.")
    ] = AppendMode.errorifexists,
    compression: Annotated[str, typer.Option(help="none, gzip or zlib.")] = "none",
    shard_size: Annotated[str, typer.Option(help="Target size of a shard.")] = "128MiB",
    debug: Debug = False,
) -> None:
    """Write lines as records with label, indices and values, published once. Prints how to parse them."""
    from rich.text import Text

    with errors_in_words(debug) as console:
        with RunProgress(console) as progress:
            from ctr_samples.converters.libsvm import read_libsvm, size_of_table
            from ctr_samples.sparksql.session import session_of_command
            from ctr_samples.tfrecord.public import write_tfrecord

            check_address(input_)  # it becomes the name of the application
            check_apart(input_, output)
            with session_of_command(f"libsvm {input_}") as spark:
                progress.follow(spark)
                progress.stage("checking the text")
                rows = read_libsvm(spark, input_, size, zero_based=zero_based)
                progress.stage("writing")
                write_tfrecord(rows, output, mode=mode.value, compression=compression, shard_size=shard_size)
        features = size_of_table(output)  # of all rows, also of those that were there before
        console.print(Text.assemble(("Published", "bold green"), f" {output}, features: {features:,}"), soft_wrap=True)
        console.print("Parse them in batches with", markup=False)
        say(f"tf.io.SparseFeature('indices', 'values', tf.float32, {features})")
