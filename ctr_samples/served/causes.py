"""Why served values differ from the samples: hypotheses that are tried on all differences of a feature. NumPy only.

Each hypothesis says which differences it explains. The one that explains most is named first, then the one that explains
most of the rest, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

import numpy as np

from ctr_samples.config import Feature
from ctr_samples.quality.served import Cause
from ctr_samples.served.columns import Column, Flags, Ints, Numbers, Pairs, Tolerance, compared
from ctr_samples.served.delays import FOREVER, NO_TIME, Sight, Versions, format_span, shown_delay
from ctr_samples.vocabulary import FittedState

_FEWEST = 20
"""Differences below which no factor or shift is believed."""
_LEAST = 0.01
"""Share of the differences that a further cause must explain."""
_LEAST_OF_ALL = 0.1
"""Share of the differences that a form of all served values must explain: rounded numbers fit float16, too."""
_SKEW = 60_000_000
"""Delays below this, in microseconds, are told as those of a clock."""
_BY_CHANCE = 0.6
"""Share of what a delay explains that it may explain of values of other samples."""
_FACTORS = {1000.0: "milliseconds or thousandths", 60.0: "minutes", 3600.0: "hours", 86400.0: "days", 100.0: "per cent"}


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A cause, the differences it explains, and what to say of it. Of two that explain the same, the first is named."""

    name: str
    explains: Flags
    words: str
    """Completes the sentence: the feature is served ..."""
    advice: str
    is_of_all: bool = False
    """Whether all served values have this form."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another form of a feature: which cause it stands for, its definition, and the fitted state that it uses."""

    of: str
    cause: str
    words: str
    advice: str
    feature: Feature
    state: FittedState | None


@dataclass(frozen=True)
class Sought:
    """A feature whose causes are sought: both sides of it in some samples, and what the service could have served.

    ``versions`` has the rows of each view that the feature reads, and ``others`` its values in other forms.
    """

    name: str
    pairs: Pairs
    at_random: Flags
    tolerance: Tolerance
    versions: Mapping[str, Versions]
    others: Sequence[tuple[Alternative, Column]]

    @cached_property
    def half(self) -> bool:
        """Whether all served numbers are those of float16, though the offline ones are not, and this explains a part."""
        offline, served, differ = self.pairs.offline, self.pairs.served, self.pairs.differ
        if offline.values.dtype != np.float64 or served.values.dtype != np.float64 or not len(served.values):
            return False
        if not _fits_half(served) or _fits_half(offline):
            return False
        half = compared(offline.in_half_precision(), served, Tolerance(relative=0.0)).equal
        return bool((half & differ).sum() >= max(1, _LEAST_OF_ALL * differ.sum()))

    @cached_property
    def covered(self) -> Flags:
        """The samples whose rows were found in all views. They are few for a feature over several views."""
        covered = np.ones(len(self.at_random), np.bool_)
        for of in self.versions.values():
            covered &= of.sight.samples(len(covered))
        return covered

    @cached_property
    def agreeing(self) -> dict[str, Sight]:
        """For each view, the intervals in which its rows have the served values."""
        return {view: self.having(of, self.pairs.served) for view, of in self.versions.items()}

    def agreement(self, view: str, delay: int) -> float:
        """Return the share of samples, chosen at random, that agree if the rows of a view are known so much later."""
        at_random = self.at_random & self.covered
        return float(self.agreeing[view].seen(delay).samples(len(at_random))[at_random].mean())

    def same(self, candidate: Column, served: Column) -> Flags:
        """Compare values with served ones, in the precision in which these are served."""
        return compared(candidate.in_half_precision() if self.half else candidate, served, self.tolerance).agree

    def having(self, of: Versions, values: Column) -> Sight:
        """Return the intervals in which the rows of a view have some values."""
        sight = of.sight
        return sight.where(self.same(of.features[self.name].take(sight.row), values.take(sight.of)))


def _fits_half(column: Column) -> bool:
    return bool(np.array_equal(column.in_half_precision().values, column.values, equal_nan=True))


def causes_of(sought: Sought) -> tuple[int, tuple[Cause, ...], float | None]:
    """Return how many differences of a feature were looked at, their causes, and the share without one."""
    rows = np.flatnonzero(sought.pairs.differ & sought.covered)
    if not len(rows):
        return 0, (), None
    tried = [*_of_form(sought, rows)]
    for view in sought.versions:
        tried += _of_rows(sought, view, rows)
    theirs = sought.pairs.served.take(rows)
    for form, values in sought.others:
        tried.append(Hypothesis(form.cause, sought.same(values.take(rows), theirs), form.words, form.advice))
    causes, rest = _named(sought.name, tried, len(rows))
    return len(rows), causes, rest


def _named(name: str, tried: Sequence[Hypothesis], count: int) -> tuple[tuple[Cause, ...], float]:
    """Name the causes, first the one that explains most, and return them with the share that none explains."""
    left = np.ones(count, np.bool_)
    causes: list[Cause] = []
    while left.any():
        # Other hypotheses compare in the served precision, so they explain what precision explains, too.
        best = max(tried, key=lambda one: _rank(one, left, first=not causes))
        new = int((best.explains & left).sum())
        if new < max(1, _LEAST * count):
            break
        share = float(best.explains.mean())
        of_rest = "of the other differences" if causes else "of the differences"
        figure = new / int(left.sum()) if causes else share
        sentence = f"`{name}` is served {best.words} in {figure:.1%} {of_rest}: {best.advice}"
        causes.append(Cause(best.name, share, new / count, sentence))
        left &= ~best.explains
    return tuple(causes), float(left.mean())


def _rank(hypothesis: Hypothesis, left: Flags, *, first: bool) -> tuple[bool, int]:
    explains = int((hypothesis.explains & left).sum())
    return hypothesis.is_of_all and first and explains >= _LEAST * len(left), explains


def _of_form(sought: Sought, rows: Ints) -> Iterator[Hypothesis]:
    """Try other forms of the same value: none at all, precision, rounding, a factor, a shift."""
    offline, served = sought.pairs.offline.take(rows), sought.pairs.served.take(rows)
    single = offline.single and served.single
    nothing = offline.present & ~served.present
    if single:
        nothing |= np.isfinite(offline.numbers()) & np.isnan(served.numbers())
    yield Hypothesis("no value", nothing, "without a value", "look-ups fail, or the features are logged too early.")
    if sought.half:
        same = sought.same(offline, served)
        yield Hypothesis("precision", same, "as float16", "serve float32, or declare a tolerance.", is_of_all=True)
    if not single:
        return
    mine, theirs = offline.numbers(), served.numbers()
    both = np.isfinite(mine) & np.isfinite(theirs)
    if both.sum() < _FEWEST:
        return
    if np.array_equal(theirs[both], np.trunc(theirs[both])) and _tells(mine, both, both):
        for how, whole in (("rounded", np.round(mine)), ("cut to whole numbers", np.trunc(mine))):
            yield Hypothesis("precision", both & (whole == theirs), how, "serve the number as it is.")
    yield from _factor(mine, theirs, both & (mine != 0) & (theirs != 0))
    yield from _shift(mine, theirs, both, is_whole=offline.values.dtype == np.int64)


def _tells(mine: Numbers, explains: Flags, of: Flags) -> bool:
    """Whether so many numbers follow a rule, and so many different ones, that this is no chance."""
    return bool(explains.sum() >= max(_FEWEST, 0.5 * of.sum())) and len(np.unique(mine[explains])) >= 3


def _factor(mine: Numbers, theirs: Numbers, usable: Flags) -> Iterator[Hypothesis]:
    """Try one factor for all differences."""
    times = np.divide(theirs, mine, out=np.full(len(mine), np.nan), where=usable)
    factor = float(np.median(times[usable])) if usable.any() else 1.0
    known = {f: f", as between {what} and the whole" for one, what in _FACTORS.items() for f in (one, 1 / one)}
    factor = next((f for f in known if abs(factor / f - 1) < 1e-3), factor)
    explains = np.abs(times / factor - 1) < 1e-3
    if abs(factor - 1) > 1e-3 and _tells(mine, explains, usable):
        advice = f"the units differ by this factor{known.get(factor, '')}."
        yield Hypothesis("unit", explains, f"{factor:g} times as large", advice)


def _shift(mine: Numbers, theirs: Numbers, both: Flags, *, is_whole: bool) -> Iterator[Hypothesis]:
    """Try one number that is added in all differences."""
    # Numbers of float32 are apart by a constant only up to their precision.
    exact = 0.0 if is_whole else 8 * 2.0**-24 * float(np.max(np.abs([mine[both], theirs[both]])))
    shift = float(np.median((theirs - mine)[both]))
    if abs(shift - round(shift, 3)) <= exact:
        shift = round(shift, 3)
    explains = both & (np.abs(theirs - mine - shift) <= 2 * max(exact, 1e-6))
    if _tells(mine, explains, both):
        hours = abs(shift) >= 3600 and shift % 900 == 0
        name, advice = ("zone", "check the time zone.") if hours else ("shift", "check the formula.")
        yield Hypothesis(name, explains, f"{shift:+g} apart", advice)


def _of_rows(sought: Sought, view: str, rows: Ints) -> Iterator[Hypothesis]:
    """Try no row of the view, rows that are over, and those of a store that is late or early. What agrees as often by chance
    explains nothing.
    """
    of, served, samples = sought.versions[view], sought.pairs.served, len(sought.at_random)
    seen = sought.agreeing[view]
    usual = sought.having(of, sought.pairs.offline)
    usual_none = float(usual.where(~usual.found).samples(samples).mean())
    differing = seen.where(np.isin(seen.of, rows))
    none = differing.where(~differing.found).samples(samples)[rows]
    if none.mean() > min(1.5 * usual_none, (1 + usual_none) / 2):
        words = f"as if `{view}` had no row"
        yield Hypothesis("no row", none, words, "look-ups fail or come too late; count them in the service.")
    now = of.sight.seen()
    over = now.where(~now.found & (now.newest >= 0))
    over = over.where(sought.same(of.features[sought.name].take(over.newest), served.take(over.of)))
    yield Hypothesis(
        "ended row",
        over.samples(samples)[rows],
        f"with a row of `{view}` that is over",
        "the service does not look at its end, `tombstone` or `ttl`, or the snapshot lacks it.",
    )
    mixed_up = sought.having(of, _mixed_up(served, rows))
    mixed_up = mixed_up.where(np.isin(mixed_up.of, rows))
    for name, *sign in (("late row", 1, FOREVER), ("early row", -FOREVER, -1)):
        # Rows alone decide about the delay, since look-ups that fail agree with each delay beyond the first row.
        (first, last, count), (*_, by_chance) = (
            sight.where(sight.found).within(*sign).best_delay() for sight in (differing, mixed_up)
        )
        if count and by_chance <= _BY_CHANCE * count:
            # Of these delays, the one with which most samples agree, those that do not differ too.
            closest, farthest, agree = seen.where(sought.at_random[seen.of]).within(first, last).best_delay()
            delay = shown_delay(closest, farthest) if agree else shown_delay(first, last)
            yield Hypothesis(
                name,
                differing.seen(delay).samples(samples)[rows],
                _when(delay),
                _advice(sought, view, delay),
            )


def _mixed_up(served: Column, rows: Ints) -> Column:
    """Return served values of which those in ``rows`` have changed places."""
    places = np.arange(len(served))
    places[rows] = np.random.default_rng(len(rows)).permutation(rows)
    return served.take(places)


def _when(delay: int) -> str:
    if abs(delay) < _SKEW:
        return f"{format_span(abs(delay))} {'late' if delay > 0 else 'early'}"
    return f"{format_span(delay)} late" if delay > 0 else f"{format_span(-delay)} earlier than the job sees it"


def _advice(sought: Sought, view: str, delay: int) -> str:
    if abs(delay) < _SKEW:
        return "the clocks of service and logs differ, or rows arrive at the same moment."
    versions, now, then = sought.versions[view], sought.agreement(view, 0), sought.agreement(view, delay)
    if then < now:
        return "only for a part of the keys or servers, since all samples together agree less with such a delay."
    wanted = versions.view.delay + timedelta(microseconds=delay)
    if wanted < timedelta():
        return f"`{view}` is known before the time that the samples take for it."
    after = format_span(wanted // timedelta(microseconds=1))
    how = f"with `{versions.setting}: {after}` of `{view}`"
    if bool(((versions.end != NO_TIME) & (versions.end > versions.event)).any()):
        how = f"{how}, and its ends (`closed_available`) as much later,"
    if versions.setting is None:
        how = f"if the `available_time` of `{view}` were {format_span(delay)} later,"
    return f"{how} agreement would be {then:.1%} ({now:.1%} now)."
