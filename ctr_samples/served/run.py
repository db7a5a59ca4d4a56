"""Compare what was served with the samples of a day, and find the causes. Runs on the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import Feature, JobConfig
from ctr_samples.config import Served as ServedConfig
from ctr_samples.errors import InputError
from ctr_samples.job.fit import state_of_run
from ctr_samples.job.planning import read_inputs
from ctr_samples.periods import Period
from ctr_samples.quality.pseudonyms import pseudonyms_of
from ctr_samples.quality.report.wording import span
from ctr_samples.quality.served import SERVED_FORMAT, Compared, Coverage, Proposal, Served
from ctr_samples.samples.impressions import DROPPED, cut_impressions
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Reach
from ctr_samples.served.causes import Alternative, Sought, causes_of
from ctr_samples.served.columns import Ints, Tolerance
from ctr_samples.served.comparing import Comparison, smallest
from ctr_samples.served.delays import Sight, format_span, shown_delay
from ctr_samples.served.keys import ImpressionIndex
from ctr_samples.served.log import ServedLog
from ctr_samples.served.versions import found_for
from ctr_samples.shards import Manifest, Storage, latest_manifest, open_storage, published_days
from ctr_samples.shards.states import latest_state, state_before
from ctr_samples.sparksql.observations import Reporter
from ctr_samples.vocabulary import FittedState

_LOOKED_UP = 20_000
"""Served lines without a sample that are looked up in the log of impressions."""
_ENOUGH = 1_000
"""Ids that are looked at to see whether all are integers that a double holds: of random ids, one in a thousand is."""
_ROUNDED = "rounded to 53 bits, as by a double; log ids as text"
_LEFT_OUT, _NO_IMPRESSION = "left out later, by sampling or `forget`", "no impression has their keys"
_DAYS = 14
"""Published days on either side whose definitions of features are tried."""
_AGES = (60, 600, 3600, 6 * 3600, 86400, 7 * 86400)

Session = Callable[[], tuple[SparkSession, Reporter]]
"""Starts Spark at its first call."""


@dataclass(frozen=True, slots=True)
class Task:
    """A comparison to make: the generation, the log, and the configuration of the samples."""

    storage: Storage
    manifest: Manifest
    log: ServedLog
    config: JobConfig
    period: Period
    path: str


def compare_served(task: Task, session: Session, *, causes: bool, propose: bool) -> Served:
    """Return the comparison. Starts Spark only if something differs and ``causes`` are sought, or to ``propose`` clocks.

    Raises DamagedFile for damaged shards, and InputError if no served line has a sample.
    """

    @cache
    def inputs() -> Inputs:
        spark, reporter = session()
        return read_inputs(spark, task.config, task.period, reporter, watched=False)

    log, config, manifest = task.log, task.config, task.manifest
    null_is_nan = log.format != "tfrecord"
    tolerances = {
        name: Tolerance(config.served.tolerance.get(name, 0.0), null_is_nan=null_is_nan) for name in log.columns
    }
    index = ImpressionIndex.of(inputs(), list(log.keys), config.served.within) if log.keys else None
    comparison = Comparison(log, tolerances, config.timezone, index, pseudonyms_of(config))
    comparison.run(task.storage, manifest)
    _check_ids(task, comparison)
    features, lost = comparison.features(), comparison.no_sample
    why: dict[str, int] = {}
    # What sampling leaves out does not count for the limit.
    if len(lost) and (causes or propose or config.sampling is not None):
        session()[1].stage("looking up served lines without a sample")
        why = _why_no_sample(inputs(), lost)
    proposals: list[Proposal] = []
    if propose or (causes and any(one.differ for one in features.values())):
        session()[1].stage("seeking the causes")
        wanted = [name for name, one in features.items() if name in config.features and (propose or one.differ)]
        sought = list(_sought(task, inputs(), comparison, wanted))
        features |= {one.name: _explained(features[one.name], one) for one in sought} if causes else {}
        proposals = list(_proposals(config, sought)) if propose else []
    if index is not None and index.unknown:
        why[_NO_IMPRESSION] = index.unknown
    coverage = comparison.coverage(why)
    return Served(
        SERVED_FORMAT, manifest.name, manifest.run_date, manifest.generation, manifest.run_id, task.path,
        datetime.now(UTC).isoformat(timespec="seconds"), coverage, features, (*log.absent,), (*proposals,),
        (*_beyond(config.served, coverage, features),),
    )  # fmt: skip


def _check_ids(task: Task, comparison: Comparison) -> None:
    served = comparison.totals["served"]
    if comparison.totals["matched"]:
        return
    lost, index = comparison.no_sample, comparison.index
    if index is not None:
        near = format_span(index.nearest)
        apart = f" For {index.far:,} lines the nearest impression of their keys is {near} away: check the time zone of " \
                f"`served.time`, or `served.within` ({format_span(index.within)})." if index.far else ""  # fmt: skip
        raise InputError(
            f"No line of {task.path} has the keys of an impression of {task.manifest.run_date}."
            f"{apart or ' Check `served.keys`.'}"
        )
    if not served:
        raise InputError(f"{task.path} has no served line with an id.")
    example = f"such as {lost[0]}" if len(lost) else "none"
    some = lost[:_ENOUGH].tolist()
    rounded = max(map(abs, some), default=0) > 2**53 and all(int(float(one)) == one for one in some)
    cure = "They went through a double, which rounds them; log them as text." if rounded else \
        "Check `served.id` and the day of the log."  # fmt: skip
    raise InputError(
        f"None of the {served:,} served lines has a sample of {task.manifest.run_date}: their ids, {example}, are "
        f"not among those that `ctr-samples show` prints. {cure}"
    )


def _why_no_sample(inputs: Inputs, lost: Ints) -> dict[str, int]:
    """Look up in the log of impressions what became of served lines without a sample: of at most 20,000 of them."""
    shown, span_ = inputs.config.impressions, inputs.span
    chosen = lost[smallest(lost, _LOOKED_UP)]
    wanted = inputs.spark.createDataFrame([(int(one),) for one in chosen], "impression_id bigint")
    impressions = cut_impressions(
        inputs.uncounted(shown.source), shown, span_, inputs.partitions(), Reach(timedelta(days=1), timedelta(days=1))
    )
    # An id that went through a double is that of an impression after rounding.
    rounded = F.col("impression_id").cast("double").alias("rounded")
    served = wanted.select(F.col("impression_id").alias("served"), rounded)
    there = impressions.select("*", rounded).join(F.broadcast(served), "rounded").select(
        "served",
        F.when(F.col("served") != F.col("impression_id"), _ROUNDED)
        .when(~span_.contains(F.col("impression_time")), "another day")
        .otherwise(F.coalesce(F.col(DROPPED), F.lit(_LEFT_OUT))),
    )  # fmt: skip
    found = dict(map(tuple, there.distinct().collect()))
    counts = Counter(found.get(int(one), "not in the log of impressions") for one in chosen)
    return dict(counts.most_common())


def _sought(task: Task, inputs: Inputs, comparison: Comparison, names: list[str]) -> Iterator[Sought]:
    """Yield some features with all that the service could have served, in the samples kept by the comparison."""
    kept = comparison.looked_at()
    state = state_of_run(task.config, task.period)
    differing = [name for name in names if kept.features[name].differ.any()]
    alternatives = [*_other_states(task, differing, state), *_other_definitions(task, differing)]
    found = found_for(inputs, state, kept.ids.tolist(), names, alternatives)
    kept = kept.take(np.flatnonzero(np.isin(kept.ids, found.ids)))
    kept = kept.take(np.argsort(kept.ids))
    for name in names:
        pairs, tolerance = kept.features[name], comparison.tolerances[name]
        yield Sought(name, pairs, kept.at_random, tolerance, found.versions[name], found.others.get(name, ()))


def _explained(compared: Compared, sought: Sought) -> Compared:
    looked_at, causes, rest = causes_of(sought)
    return replace(compared, looked_at=looked_at, causes=causes, unexplained=rest, by_age=_by_age(sought))


def _other_states(task: Task, names: list[str], state: FittedState | None) -> Iterator[Alternative]:
    """Yield fitted features with the version before the one of the samples, and with the newest one."""
    fitted = task.config.fitted
    if state is None or fitted is None:
        return
    storage = open_storage(fitted.path)
    advice = "load the fitted state of the samples that the model was trained with."
    for other in (state_before(storage, state.through), latest_state(storage)):
        if other is not None and other.version != state.version:
            words = f"with version {other.version} of the fitted state, of {other.through}"
            for name in names:
                if task.config.features[name].is_fitted:
                    yield Alternative(name, "state", words, advice, task.config.features[name], other)


def _other_definitions(task: Task, names: list[str]) -> Iterator[Alternative]:
    """Yield features as other published days near this one define them, if otherwise."""
    own, days = task.manifest.config.get("features", {}), published_days(task.storage)
    place = days.index(task.manifest.day) if task.manifest.day in days else len(days)
    advice = "the service follows another configuration than the samples."
    tried = {name: [task.config.features[name]] for name in names}
    for day in days[max(0, place - _DAYS) : place + _DAYS]:
        manifest = latest_manifest(task.storage, day)
        if manifest is None:
            continue
        defined = manifest.config.get("features", {})
        for name in (name for name in names if name in defined and defined[name] != own.get(name)):
            other = Feature.model_validate(defined[name])
            if other not in tried[name] and not other.cross:
                tried[name].append(other)
                words = f"as the samples of {manifest.run_date} define it"
                yield Alternative(name, "definition", words, advice, other, None)


def _proposals(config: JobConfig, sought: list[Sought]) -> Iterator[Proposal]:
    """Yield for each view the delay with which the features of the view agree best, over samples chosen at random."""
    for name, view in config.views.items():
        of_view = [one for one in sought if name in one.versions]
        if not of_view or not of_view[0].at_random.any():
            continue
        at_random = [one.agreeing[name].where(one.at_random[one.agreeing[name].of]) for one in of_view]
        first, last, _ = Sight.joined(at_random).best_delay()
        delay = shown_delay(first, last)
        now, then = (float(np.mean([one.agreement(name, late) for one in of_view])) for late in (0, delay))
        wanted, setting = view.delay + timedelta(microseconds=delay), of_view[0].versions[name].setting
        if then > now and wanted >= timedelta() and setting is not None:
            before, after = (format_span(one // timedelta(microseconds=1)) for one in (view.delay, wanted))
            yield Proposal(name, before, after, now, then, setting)


def _by_age(sought: Sought) -> tuple[tuple[str, int, int], ...]:
    """Count values and differences by the age of the row that the samples have, over samples chosen at random."""
    if len(sought.versions) != 1:
        return ()
    (of_view,) = sought.versions.values()
    now = of_view.sight.seen()
    now = now.where(now.found)
    age = np.full(len(of_view.times), np.inf)
    age[now.of] = (of_view.times[now.of] - of_view.event[now.row]) / 1e6
    age, differ = age[sought.at_random], sought.pairs.differ[sought.at_random]
    places = np.where(np.isinf(age), len(_AGES) + 1, np.searchsorted(_AGES, age))
    titles = [*(f"up to {span(end)}" for end in _AGES), f"over {span(_AGES[-1])}", "no row"]
    counts = ((title, places == at) for at, title in enumerate(titles))
    return tuple((title, int(of.sum()), int(differ[of].sum())) for title, of in counts if of.any())


def _beyond(served: ServedConfig, coverage: Coverage, features: Mapping[str, Compared]) -> Iterator[str]:
    limits = served.limits
    for name, one in features.items():
        if one.share > limits.different:
            yield f"`{name}` differs in {one.share:.2%} of the samples; `served.limits.different` is {limits.different:g}."
    looked_up = sum(coverage.why_no_sample.values())
    left_out = coverage.no_sample * coverage.why_no_sample.get(_LEFT_OUT, 0) / looked_up if looked_up else 0
    for count, whole, key, what in (
        (coverage.not_served, coverage.samples, "not_served", "of the samples have no served line"),
        (
            coverage.no_sample - left_out,
            coverage.matched + coverage.no_sample,
            "no_sample",
            "of the served impressions have no sample",
        ),
    ):
        limit = getattr(limits, key)
        if whole and count / whole > limit:
            yield f"{count / whole:.2%} {what}; `served.limits.{key}` is {limit:g}."
