"""``ctr-samples infer``: infer the contract of TFRecord files without a manifest. Does not use Spark."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Annotated

import typer

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.terminal import say
from ctr_samples.errors import InputError, UsageError

if TYPE_CHECKING:
    from ctr_samples.quality.feature_facts import FeatureFacts
    from ctr_samples.records.foreign import ForeignRecords

FILES = "files"
"""Name of the data set in the statistics. Files without a manifest have no splits."""


def infer(
    path: Annotated[str, typer.Argument(help="A TFRecord file, a directory of such files, or a glob.")],
    every: Annotated[
        bool, typer.Option("--all", help="Read all records, not the first 10,000 of each of ten files.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print a schema of TensorFlow Metadata instead.")] = False,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Print statistics for TensorFlow Data Validation instead.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Print the contract of TFRecord files made by any program, with what tf.io.parse_example takes for each feature.

    It is guessed from the records: a feature has a fixed shape if all that have it have equally many values, else it is
    ragged; one that a record lacks gets a default. By default from a sample of the records.
    """
    with errors_in_words(debug):
        if schema and statistics:
            raise UsageError("--schema and --statistics are mutually exclusive; give only one.")
        from ctr_samples.descriptions import contract_json, schema_pbtxt
        from ctr_samples.quality.statistics import statistics_pbtxt
        from ctr_samples.records.foreign import SAMPLE, find_foreign

        records = find_foreign(path)
        if records is None:
            raise InputError(
                f"{path} holds no TFRecord files without a manifest; expected a file, a directory or a glob. Samples that "
                "`ctr-samples generate` wrote have a contract.json, schema.pbtxt and statistics.pbtxt beside them."
            )
        limit = None if every else SAMPLE
        if statistics:
            rows, features = measured(records, limit)
            say(statistics_pbtxt({FILES: rows}, features), end="")
            return
        contract = records.contract(limit)
        say(schema_pbtxt(contract) if schema else contract_json(contract), end="")


def measured(records: ForeignRecords, limit: int | None) -> tuple[int, dict[str, FeatureFacts]]:
    """Return the number of records read and the statistics of each feature."""
    from ctr_samples.quality.measure.collecting import LOOKING, Collector, Wanted
    from ctr_samples.quality.measure.merging import Measures

    contract = records.layout(limit)
    together = ceil(len(records.shards) / LOOKING)  # a collector sketches only its first records, and files may differ
    collectors = [Collector(Wanted(contract), number) for number in range(LOOKING)]
    for number, batches in enumerate(records.batches(contract, limit)):
        for batch in batches:
            collectors[number // together].observe(batch, FILES)
    measures = Measures.of(collector.close() for collector in collectors)
    return measures.splits[FILES].rows, measures.columns(contract, "feature")


def page_about(checked: ForeignRecords, limit: int | None) -> str:
    """Return the report page on fully checked files."""
    from ctr_samples.errors import ContractError
    from ctr_samples.quality.report import Contents, render_files

    sound = checked.sound()
    contents = Contents()
    if any(file.records for file in sound.shards):
        try:
            contents = Contents(*measured(sound, limit))
        except ContractError as error:
            contents = Contents(unknown=str(error))
    return render_files(checked.title, checked.shards, contents)
