"""OpenLineage events for each day, with its inputs and published samples.

The official client sends the events to the target in its settings: ``OPENLINEAGE_URL``, or ``openlineage.yml``.
Dataset names follow the OpenLineage specification, https://openlineage.io/docs/spec/naming.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from ctr_samples import __version__
from ctr_samples.config import CatalogSource, DatabaseSource, JobConfig, Source
from ctr_samples.config.masking import masked, masked_tree, written
from ctr_samples.errors import UsageError
from ctr_samples.job.many_days import DayOutcome
from ctr_samples.periods import Period, span_of
from ctr_samples.shards import Manifest
from ctr_samples.telemetry.listeners import Listener

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunState

_PRODUCER = f"ctr-samples/{__version__}"
_NO_CLIENT = "`--lineage` needs the client of OpenLineage; install it with `pip install openlineage-python`."


@dataclass(frozen=True, slots=True)
class Lineage(Listener):
    """A listener that sends START at the start of a day, and COMPLETE, FAIL or ABORT at its end."""

    config: JobConfig
    client: OpenLineageClient
    _runs: dict[Period, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: JobConfig) -> Self:
        """Create the client from its own settings. Raises UsageError if the client is not installed."""
        try:
            from openlineage.client import OpenLineageClient, set_producer
        except ImportError:
            raise UsageError(_NO_CLIENT) from None
        set_producer(_PRODUCER)
        return cls(config, OpenLineageClient())

    def begins(self, day: Period) -> None:
        """Send a START event with the inputs."""
        from openlineage.client.event_v2 import RunState
        from openlineage.client.uuid import generate_new_uuid

        self._runs[day] = str(generate_new_uuid())
        self._send(day, RunState.START, {}, self._inputs({}), [])

    def ended(self, outcome: DayOutcome) -> None:
        """Send the outcome, with input versions and the published manifest."""
        from openlineage.client.event_v2 import RunState
        from openlineage.client.facet_v2 import error_message_run

        if outcome.day not in self._runs:
            return
        manifest = outcome.manifest
        inputs = self._inputs(manifest.inputs if manifest else {})
        if manifest is not None:
            self._send(outcome.day, RunState.COMPLETE, {}, inputs, [_output(self.config, manifest)])
        elif outcome.error is None:
            self._send(outcome.day, RunState.ABORT, {}, inputs, [])
        else:
            error = error_message_run.ErrorMessageRunFacet(masked(str(outcome.error)), "python")
            self._send(outcome.day, RunState.FAIL, {"errorMessage": error}, inputs, [])

    def _inputs(self, facts: Mapping[str, Mapping[str, Any]]) -> list[InputDataset]:
        """Describe all sources. ``facts`` holds their manifest entries."""
        return [_input(name, source, facts.get(name, {})) for name, source in self.config.sources.items()]

    def _send(
        self,
        day: Period,
        state: RunState,
        facets: Mapping[str, Any],
        inputs: list[InputDataset],
        outputs: list[OutputDataset],
    ) -> None:
        from openlineage.client.event_v2 import Job, Run, RunEvent
        from openlineage.client.facet_v2 import nominal_time_run

        span = span_of(day, self.config.timezone)
        nominal = {} if span is None else {"nominalTime": nominal_time_run.NominalTimeRunFacet(*map(_instant, span))}
        self.client.emit(
            RunEvent(
                eventType=state,
                eventTime=_instant(datetime.now(UTC)),
                run=Run(self._runs[day], facets={**nominal, **facets}),
                job=Job("ctr-samples", self.config.name),
                producer=_PRODUCER,
                inputs=inputs,
                outputs=outputs,
            )
        )


def dataset_of(source: Source) -> tuple[str, str]:
    """Return namespace and name of a source's dataset. The name of a file source is the constant part of its path.

    Values from the environment are shown as ``${NAME}``.
    """
    if isinstance(source, DatabaseSource):
        table = masked(source.table or "query")
        if (address := written(source.url)) is not None:
            return "jdbc", f"{address}.{table}"
        server = urlsplit(source.url.removeprefix("jdbc:"))
        place = f"{server.scheme}://{server.hostname or ''}{f':{server.port}' if server.port else ''}"
        return place, ".".join(filter(None, [server.path.strip("/"), table]))
    if isinstance(source, CatalogSource):
        return "spark", written(source.table) or source.table
    return _file_dataset(re.split(r"/[^/]*(?<!\$)\{", written(source.path) or source.path)[0])


def _file_dataset(path: str) -> tuple[str, str]:
    if path.startswith("${"):
        return "file", path
    address = urlsplit(path)
    if address.scheme in ("", "file"):
        return "file", str(Path(address.path).absolute())
    return f"{address.scheme}://{address.netloc}", address.path.strip("/") or "/"


def _input(name: str, source: Source, facts: Mapping[str, Any]) -> InputDataset:
    """Describe a source. ``facts`` is its manifest entry."""
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import (
        dataset_version_dataset,
        documentation_dataset,
        input_statistics_input_dataset,
    )

    facets: dict[str, Any] = {"documentation": documentation_dataset.DocumentationDatasetFacet(f"sources.{name}")}
    snapshot = facts.get("snapshot")
    if version := (snapshot or {}).get("version") or facts.get("fingerprint"):
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(version))
    counted = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
        rowCount=facts.get("lines"), size=facts.get("bytes"), fileCount=facts.get("files")
    )
    namespace, dataset = dataset_of(source)
    return InputDataset(namespace, dataset, facets=facets, inputFacets={"inputStatistics": counted} if facts else {})


def _output(config: JobConfig, manifest: Manifest) -> OutputDataset:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as quality
    from openlineage.client.facet_v2 import dataset_version_dataset, output_statistics_output_dataset, schema_dataset

    columns = [
        schema_dataset.SchemaDatasetFacetFields(feature["name"], feature["dtype"])
        for feature in manifest.contract.get("features", ())
    ]
    found = [
        quality.Assertion(
            one["check"], success=False, column=one["subject"], severity=one["severity"], description=one["sentence"]
        )
        for one in masked_tree(manifest.quality.get("found", ()))
    ]
    verdict = quality.Assertion("published", success=True, description=str(manifest.quality.get("verdict")))
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=manifest.records, size=manifest.bytes, fileCount=len(manifest.shards)
    )
    namespace, dataset = _file_dataset(written(config.output.path) or config.output.path)
    version = f"{manifest.run_date}/{manifest.generation:08}/{manifest.run_id}"
    facets: dict[str, Any] = {
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(version),
        "schema": schema_dataset.SchemaDatasetFacet(columns),
        "dataQualityAssertions": quality.DataQualityAssertionsDatasetFacet([verdict, *found]),
    }
    return OutputDataset(namespace, dataset, facets=facets, outputFacets={"outputStatistics": statistics})


def _instant(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
