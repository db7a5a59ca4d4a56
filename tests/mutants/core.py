"""The parts of the core, and the tests that hold each of them: those without Spark first, since one failure is enough."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """Modules below ``ctr_samples``, and tests below ``tests``."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


CORE = {
    "matching": Part(
        ("samples/views/as_of/matching.py", "samples/views/as_of/joining.py", "samples/views/as_of/planning.py"),
        ("samples/views/as_of", "samples/views/test_views.py"),
    ),
    "attribution": Part(
        (
            "samples/labels/attribution.py",
            "samples/labels/labelling.py",
            "samples/labels/plans.py",
        ),
        ("samples/labels",),
    ),
    "repeats": Part(
        ("samples/impressions.py", "samples/inputs/log_days.py"),
        ("samples/test_impressions.py", "samples/inputs", "job/test_late_events.py"),
    ),
    "histories": Part(
        ("samples/histories.py", "codec/kernels/histories.py"),
        ("samples/test_history.py",),
    ),
    "windows": Part(
        ("samples/views/aggregates.py", "samples/views/counts.py"),
        (
            "samples/views/test_aggregates.py",
            "samples/views/as_of/test_validity.py",
        ),
    ),
    "sampling": Part(
        ("samples/sampling.py", "samples/requests.py", "samples/training_rows.py"),
        (
            "samples/test_sampling.py",
            "samples/test_requests.py",
            "job/test_fitted_nights.py",
            "job/test_order_by_request.py",
        ),
    ),
    "order": Part(("samples/sink.py",), ("samples/test_sink.py", "samples/test_one_shuffle.py")),
    "blocks": Part(
        (
            "samples/columnar/blocks.py",
            "samples/columnar/columns.py",
            "samples/columnar/aside.py",
        ),
        ("samples/columnar", "samples/test_history.py", "samples/views/as_of"),
    ),
    "codec": Part(
        (
            "codec/encoder.py",
            "codec/decoder.py",
            "codec/kernels/encode.py",
            "codec/kernels/decode.py",
            "codec/conversions.py",
            "codec/frames.py",
        ),
        ("codec",),
    ),
    "sink": Part(
        ("shards/writer.py",),
        ("shards/test_shard_writer.py", "samples/test_sink.py"),
    ),
    "publishing": Part(
        ("shards/publish.py", "shards/generations.py", "shards/table.py", "shards/storage/objects.py"),
        ("shards",),
    ),
    "partial results": Part(
        ("samples/partials/kept.py", "samples/partials/steps.py", "shards/partials.py"),
        ("shards/test_partials_at_a_store.py", "job/test_partials.py"),
    ),
    "reuse": Part(
        ("job/reuse.py", "job/kinds.py", "job/origins.py", "samples/earlier.py"),
        ("samples/test_earlier.py", "job/test_kinds.py", "job/test_reused_features.py", "job/test_read_back.py"),
    ),
    "gate": Part(
        ("job/gate.py", "quality/checks/features.py", "quality/checks/day.py", "quality/checks/score.py"),
        ("quality/test_quality_checks.py", "job/test_gate.py", "quality/test_counts_of_days.py"),
    ),
}
