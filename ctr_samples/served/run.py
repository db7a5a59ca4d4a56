"""Compare what was served with the samples of a day, and find the causes. Runs on the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import Feature, JobConfig
from ctr_samples.config import Served as ServedConfig
from ctr_samples.errors import InputError
from ctr_samples.job.fit import state_of_run
from ctr_samples.job.planning import read_inputs
from ctr_samples.job.reporting import Reporter
from ctr_samples.periods import Period
from ctr_samples.quality.pseudonyms import pseudonyms_of
from ctr_samples.quality.report.wording import span
from ctr_samples.quality.served import SERVED_FORMAT, Compared, Coverage, Proposal, Served
from ctr_samples.samples.features.contracts import columns_contract
from ctr_samples.samples.features.row import AGE
from ctr_samples.samples.impressions import DROPPED, cut_impressions
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Reach
from ctr_samples.served.causes import Sight, agreeing, best_delay, causes_of, format_span, shown_delay
from ctr_samples.served.columns import Flags, Tolerance, compared, together
from ctr_samples.served.comparing import Comparison, Kept
from ctr_samples.served.joining import Ids, smallest
from ctr_samples.served.keys import ImpressionIndex
from ctr_samples.served.log import ServedLog
from ctr_samples.served.versions import (
    Found,
    found_for,
    other_definitions,
    other_states,
)
from ctr_samples.shards import Manifest, Storage, latest_manifest, open_storage, published_days
from ctr_samples.shards.states import latest_state, state_before
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

    @property
    def served(self) -> ServedConfig:
        """The section of the configuration."""
        return self.config.served


def compare_served(task: Task, session: Session, *, causes: bool, propose: bool) -> Served:
    """Return the comparison. Starts Spark only if something differs and ``causes`` are sought, or to ``propose`` clocks.

    Raises DamagedFile for damaged shards, and InputError if no served line has a sample.
    """
    tolerances = {
        name: Tolerance(task.served.tolerance.get(name, 0.0), null_is_nan=task.log.format != "tfrecord")
        for name in task.log.columns
    }
    groups = _groups(task.config, task.log)
    index = None
    if task.log.keys:
        inputs = read_inputs(*session()[:1], task.config, task.period, session()[1], watched=False)
        index = ImpressionIndex.of(inputs, list(task.log.keys), task.served.within)
    comparison = Comparison(task.log, tolerances, task.config.timezone, index, groups, pseudonyms_of(task.config))
    comparison.run(task.storage, task.manifest)
    _check_ids(task, comparison)
    features = comparison.features()
    lost = np.concatenate([*comparison.no_sample, np.zeros(0, np.int64)])
    why: dict[str, int] = {}
    sampled = bool(len(lost)) and task.config.sampling is not None  # the limit is not for what sampling leaves out
    proposals: list[Proposal] = []
    if (causes and (any(one.differ for one in features.values()) or len(lost))) or propose or sampled:
        spark, reporter = session()
        inputs = read_inputs(spark, task.config, task.period, reporter, watched=False)
        if len(lost):
            reporter.stage("looking up served lines without a sample")
            why = _why_no_sample(inputs, lost)
        if propose or (causes and any(one.differ for one in features.values())):
            reporter.stage("seeking the causes")
            search = _Search(task, inputs, comparison.looked_at(), tolerances)
            explained, proposals = search.explained(features, comparison, propose=propose)
            features = explained if causes else features
    if index is not None and index.unknown:
        why[_NO_IMPRESSION] = index.unknown
    coverage = Coverage(
        comparison.samples, comparison.served, comparison.matched, comparison.not_served,
        len(lost) + (index.unknown if index else 0),
        comparison.repeated, comparison.without_id - (index.far + index.tied + index.unknown if index else 0), why,
        *((index.far, index.tied) if index else ()),
    )  # fmt: skip
    manifest = task.manifest
    return Served(
        SERVED_FORMAT, manifest.name, manifest.run_date, manifest.generation, manifest.run_id, task.path,
        datetime.now(UTC).isoformat(timespec="seconds"), coverage, features, task.log.absent, proposals,
        [*_beyond(task.served, coverage, features)],
    )  # fmt: skip


def _groups(config: JobConfig, log: ServedLog) -> dict[str, list[str]]:
    """Return for each view the logged features that are made of it alone."""
    graph = config.graph
    groups: dict[str, list[str]] = {}
    for name in log.columns:
        read = graph.reads.get(f"features.{name}", {})
        used = [view for view in config.views if f"views.{view}" in read]
        if len(used) == 1 and AGE not in (read[f"views.{used[0]}"] or ()):  # an age is that of the impression
            groups.setdefault(used[0], []).append(name)
    return groups


def _check_ids(task: Task, comparison: Comparison) -> None:
    if comparison.matched:
        return
    lost = np.concatenate([*comparison.no_sample, np.zeros(0, np.int64)])
    index = comparison.index
    if index is not None:
        near = format_span(index.nearest)
        apart = f" For {index.far:,} lines the nearest impression of their keys is {near} away: check the time zone of " \
                f"`served.time`, or `served.within` ({format_span(index.within)})." if index.far else ""  # fmt: skip
        raise InputError(
            f"No line of {task.path} has the keys of an impression of {task.manifest.run_date}."
            f"{apart or ' Check `served.keys`.'}"
        )
    if not comparison.served:
        raise InputError(f"{task.path} has no served line with an id.")
    example = f"such as {lost[0]}" if len(lost) else "none"
    some = lost[:_ENOUGH].tolist()
    rounded = max(map(abs, some), default=0) > 2**53 and all(int(float(one)) == one for one in some)
    cure = "They went through a double, which rounds them; log them as text." if rounded else \
        "Check `served.id` and the day of the log."  # fmt: skip
    raise InputError(
        f"None of the {comparison.served:,} served lines has a sample of {task.manifest.run_date}: their ids, {example}, are "
        f"not among those that `ctr-samples show` prints. {cure}"
    )


def _why_no_sample(inputs: Inputs, lost: Ids) -> dict[str, int]:
    """Look up in the log of impressions what became of served lines without a sample: of at most 20,000 of them."""
    shown, span_ = inputs.config.impressions, inputs.span
    chosen = lost[smallest(lost, _LOOKED_UP)]
    wanted = inputs.spark.createDataFrame([(int(one),) for one in chosen], "impression_id bigint")
    impressions = cut_impressions(inputs.plain(shown.source), shown, span_, Reach(timedelta(days=1), timedelta(days=1)))
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


@dataclass(slots=True)
class _Search:
    """Seeks the causes of what differs in the samples kept by a comparison."""

    task: Task
    inputs: Inputs
    kept: Kept
    tolerances: Mapping[str, Tolerance]

    def explained(
        self, features: Mapping[str, Compared], comparison: Comparison, *, propose: bool
    ) -> tuple[dict[str, Compared], list[Proposal]]:
        """Return the features with their causes, and proposals if wanted."""
        config = self.task.config
        differing = [name for name, one in features.items() if one.differ and name in config.features]
        wanted = [name for name in features if name in config.features] if propose else differing
        state = state_of_run(config, self.task.period)
        alternatives = [
            *other_states(config, differing, self._states(state)),
            *other_definitions(config, differing, self._definitions()),
        ]
        found = found_for(
            self.inputs, state, self.kept.ids.tolist(), wanted, alternatives, columns_contract(config, state)
        )
        kept = self.kept.rows(np.isin(self.kept.ids, found.ids))
        kept = kept.rows(np.argsort(kept.ids))
        every = {id(of): of for by_view in found.versions.values() for of in by_view.values()}
        sights = {number: Sight.of_rows(of, found.times) for number, of in every.items()}
        elsewhere = _elsewhere(comparison, kept)
        delays: dict[str, dict[str, Sight]] = {}
        explained = dict(features)
        for name in wanted:
            mine = {view: flags for view, flags in elsewhere.items() if name in comparison.groups[view]}
            looked_at, causes, rest, delays[name] = causes_of(name, kept, found, self.tolerances[name], mine, sights)
            ages = _by_age(name, kept, found, sights, self.tolerances[name])
            explained[name] = replace(features[name], looked_at=looked_at, causes=causes, unexplained=rest, by_age=ages)
        return explained, list(self._proposals(found, kept, delays, sights)) if propose else []

    def _states(self, state: FittedState | None) -> list[FittedState]:
        """Return the version before the one of the samples, and the newest one."""
        fitted = self.task.config.fitted
        if state is None or fitted is None:
            return []
        storage = open_storage(fitted.path)
        others = [state_before(storage, state.through), latest_state(storage)]
        return [one for one in others if one is not None and one.version != state.version]

    def _definitions(self) -> list[tuple[str, Mapping[str, Feature]]]:
        """Return how other published days near this one define the features, if otherwise."""
        storage, own = self.task.storage, self.task.manifest.day
        days = published_days(storage)
        place = days.index(own) if own in days else len(days)
        found: dict[str, tuple[str, Mapping[str, Feature]]] = {}
        for day in days[max(0, place - _DAYS) : place + _DAYS]:
            manifest = latest_manifest(storage, day)
            if manifest is not None and manifest.config.get("features") != self.task.manifest.config.get("features"):
                features = {n: Feature.model_validate(one) for n, one in manifest.config["features"].items()}
                found.setdefault(repr(features), (manifest.run_date, features))
        return list(found.values())

    def _proposals(
        self, found: Found, kept: Kept, delays: Mapping[str, Mapping[str, Sight]], sights: Mapping[int, Sight]
    ) -> Iterator[Proposal]:
        """Yield for each view the delay with which the features of the view agree best, over samples chosen at random."""
        rows = np.flatnonzero(kept.at_random)
        for view, of in self.task.config.views.items():
            seen = [
                (by_view[view], sights[id(found.versions[name][view])].covers(len(kept)))
                for name, by_view in delays.items()
                if view in by_view
            ]
            if not seen or not len(rows):
                continue
            whole = [(one.where(kept.at_random[one.of]), covered) for one, covered in seen]
            together_ = Sight(*(np.concatenate([getattr(one, part) for one, _ in whole]) for part in Sight.__slots__))
            first, last, _ = best_delay(together_)
            delay = shown_delay(first, last)
            now, then = (
                float(np.mean([agreeing(one, d, len(kept))[rows[covered[rows]]].mean() for one, covered in whole]))
                for d in (0, delay)
            )
            wanted = of.delay + timedelta(microseconds=delay)
            setting = next(found.versions[name][view].setting for name, by_view in delays.items() if view in by_view)
            if then > now and wanted >= timedelta() and setting is not None:
                after = format_span(wanted // timedelta(microseconds=1))
                yield Proposal(view, format_span(of.delay // timedelta(microseconds=1)), after, now, then, setting)


def _elsewhere(comparison: Comparison, kept: Kept) -> dict[str, Flags]:
    """Return for each view the samples served with the values of another sample. A view whose values are often the same for
    different keys tells nothing.
    """
    found = {}
    for view, parts in comparison.rows_of_groups.items():
        names = [name for name in comparison.groups[view] if name in kept.offline]
        there = np.unique(np.concatenate(parts))
        served, offline = (together([side[name] for name in names]) for side in (kept.served, kept.offline))
        mine = offline[kept.at_random]
        if len(np.unique(mine)) > 0.5 * len(mine) or len(there) > 0.2 * comparison.matched:
            common = np.unique(mine, return_counts=True)
            frequent = common[0][common[1] > max(2, 0.01 * len(mine))]
            found[view] = np.isin(served, there) & (served != offline) & ~np.isin(served, frequent)
    return found


def _by_age(
    name: str, kept: Kept, found: Found, sights: Mapping[int, Sight], tolerance: Tolerance
) -> list[tuple[str, int, int]]:
    """Count values and differences by the age of the row that the samples have, over samples chosen at random."""
    if len(found.versions.get(name, {})) != 1:
        return []
    (of,) = found.versions[name].values()
    sight = sights[id(of)]
    now = sight.where((sight.first < 0) & (sight.last >= 0) & sight.found)
    age = np.full(len(kept), np.inf)
    age[now.of] = (found.times[now.of] - of.event[now.row]) / 1e6
    differ = ~compared(kept.offline[name], kept.served[name], tolerance).agree
    rows = np.flatnonzero(kept.at_random)
    places = np.where(np.isinf(age[rows]), len(_AGES) + 1, np.searchsorted(_AGES, age[rows]))
    titles = [*(f"up to {span(end)}" for end in _AGES), f"over {span(_AGES[-1])}", "no row"]
    return [
        (title, int((places == at).sum()), int(differ[rows][places == at].sum()))
        for at, title in enumerate(titles)
        if (places == at).any()
    ]


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
