"""``ctr-samples pack``: pack this environment into an archive for executors."""

from pathlib import Path
from typing import Annotated

import typer

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.terminal import say, stderr_console


def pack(
    output: Annotated[Path, typer.Option(help="The archive to write, a .tar.gz.")] = Path("environment.tar.gz"),
    cpu: Annotated[
        str, typer.Option(help="Oldest processor of the executors: host, x86-64-v2, -v3 or -v4. Default: x86-64-v3.")
    ] = "",
    debug: Debug = False,
) -> None:
    """Write Python, this environment's packages and compiled kernels into one archive for spark-submit --archives."""
    console = stderr_console()
    with errors_in_words(console, debug):
        from ctr_samples.packing import pack as write_archive

        write_archive(output, cpu)
        console.print(
            f"spark-submit --archives {output}#environment --conf spark.pyspark.python=environment/bin/python ...",
            soft_wrap=True,
        )
        say(output)
