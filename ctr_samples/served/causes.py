"""Why served values differ from the samples: hypotheses that are tried on all differences of a feature. NumPy only.

Each hypothesis says which differences it explains. The one that explains most is named first, then the one that explains
most of the rest, and so on. A row explains a difference for each delay of an interval, since a store that is late by so much
would serve it. A sweep over the ends of all intervals finds the one delay that explains most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from ctr_samples.config.units import format_duration
from ctr_samples.quality.served import Cause
from ctr_samples.served.columns import Column, Flags, Tolerance, compared
from ctr_samples.served.comparing import Kept
from ctr_samples.served.versions import NO_TIME, Alternative, Found, Versions

Micros = npt.NDArray[np.int64]

_FEWEST = 20
"""Differences below which no factor or shift is believed."""
_LEAST = 0.01
"""Share of the differences that a further cause must explain."""
_LEAST_OF_ALL = 0.1
"""Share of the differences that a form of all served values must explain: rounded numbers fit float16, too."""
_SECOND = 1_000_000
_SKEW = 60 * _SECOND
"""Delays below this are told as those of a clock."""
_BY_CHANCE = 0.6
"""Share of what older rows explain that they may explain of values of other samples."""
_ROWS = 400
"""Rows of a key that are tried before an impression, and a tenth of it after it."""
_FOREVER = np.iinfo(np.int64).max
_FACTORS = {1000.0: "milliseconds or thousandths", 60.0: "minutes", 3600.0: "hours", 86400.0: "days", 100.0: "per cent"}


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A cause, the differences it explains, and what to say of it. Of two that explain the same, the first is named."""

    name: str
    explains: Flags
    words: str
    """Completes the sentence: the feature is served ..."""
    advice: str = ""
    is_of_all: bool = False
    """Whether all served values have this form."""


@dataclass(frozen=True, slots=True)
class Sight:
    """All rows that samples could have seen: with each delay of ``first`` (exclusive) to ``last`` sample ``of`` sees ``row``.

    ``found`` is False where there is no row, or one that is over or too old, which is then ``newest``, else -1.
    """

    of: Micros
    row: Micros
    first: Micros
    last: Micros
    found: Flags
    newest: Micros

    @classmethod
    def of_rows(cls, versions: Versions, times: Micros) -> Sight:
        """Return what each sample sees with each delay."""
        group, event = versions.group, versions.event
        begins = np.searchsorted(group, np.arange(group.max(initial=-1) + 2))
        shared = np.flatnonzero((event == NO_TIME) & (group < 0))
        parts = []
        for sample, code in enumerate(versions.of):
            mine = np.arange(begins[code], begins[code + 1]) if code >= 0 else begins[:0]
            timeless = event[mine] == NO_TIME
            none = int(shared[0]) if len(shared) else int(mine[timeless][0]) if timeless.any() else -1
            if none >= 0:
                parts.append(_sight(versions, sample, int(times[sample]), mine[~timeless], none))
        if not parts:
            nothing = np.zeros(0, np.int64)
            return cls(nothing, nothing, nothing, nothing, np.zeros(0, np.bool_), nothing)
        of, row, first, last, found, newest = (np.concatenate(some) for some in zip(*parts, strict=True))
        return cls(of, row, first, last, found.astype(np.bool_), newest)

    def covers(self, samples: int) -> Flags:
        """Return the samples whose rows were found. They are few for a feature over several tables."""
        found = np.zeros(samples, np.bool_)
        found[self.of] = True
        return found

    def where(self, flags: Flags) -> Sight:
        """Return some of the intervals."""
        return Sight(*(getattr(self, part)[flags] for part in self.__slots__))

    def gives(self, values: Column, served: Column, same: _Same) -> Sight:
        """Return the intervals in which the rows have the served values."""
        return self.where(same(values.take(self.row), served.take(self.of)))

    def ended(self, values: Column, served: Column, same: _Same) -> Flags:
        """Return the samples with the served value in a row that is over or too old for them."""
        now = self.where((self.first < 0) & (self.last >= 0) & ~self.found & (self.newest >= 0))
        found = np.zeros(len(served), np.bool_)
        found[now.of[same(values.take(now.newest), served.take(now.of))]] = True
        return found


def _sight(versions: Versions, sample: int, at: int, rows: Micros, none: int) -> tuple[Micros, ...]:
    """Return the intervals of one sample: of each row, while it is the newest one, and of no row before the first."""
    event, available = versions.event[rows], versions.available[rows]
    earliest = np.minimum.accumulate(available[::-1])[::-1]  # of this row and all later ones
    last = at - available - ((event >= at) & (available <= at))
    first = np.append(at - earliest[1:], -_FOREVER)[: len(rows)]
    now = int(np.searchsorted(event, at, "right"))
    tried = slice(max(0, now - _ROWS), now + _ROWS // 10)
    seen = np.flatnonzero(first < last)
    seen = seen[(seen >= tried.start) & (seen < tried.stop)]
    old = np.zeros(len(rows), np.bool_)
    if versions.max_age is not None:
        old = at - event > versions.max_age // timedelta(microseconds=1)
    end, closed = versions.end[rows][seen], versions.closed[rows][seen]
    # With a longer delay than `told`, the row is seen as it was before its end was known.
    told = at - np.maximum(closed, end)
    over = (end != NO_TIME) & (end <= at)
    split = np.clip(np.where(over, told, first[seen]), first[seen], last[seen])
    before = range(1 if not tried.start else 0)  # rows that are left out may come before the first one
    start = at - earliest[0] if len(rows) else -_FOREVER
    row = np.concatenate([np.full(len(seen), none), np.where(old[seen], none, rows[seen]), np.full(len(before), none)])
    found = np.concatenate([np.zeros(len(seen), np.bool_), ~old[seen], np.zeros(len(before), np.bool_)])
    newest = np.concatenate([rows[seen], np.where(old[seen], rows[seen], -1), np.full(len(before), -1)])
    begins = np.concatenate([first[seen], split, np.full(len(before), start)])
    ends = np.concatenate([split, last[seen], np.full(len(before), _FOREVER)])
    keep = begins < ends
    return np.full(keep.sum(), sample), row[keep], begins[keep], ends[keep], found[keep], newest[keep]


def best_delay(seen: Sight, *, positive: bool | None = None) -> tuple[int, int, int]:
    """Return the delays, first and last, with which most samples agree, and how many. Of several, those nearest to 0."""
    first, last = seen.first, seen.last
    if positive is not None:
        first, last = (np.maximum(first, 0), last) if positive else (first, np.minimum(last, -1))
    keep = first < last
    if not keep.any():
        return 0, 0, 0
    at = np.concatenate([first[keep], last[keep]])
    step = np.concatenate([np.ones(keep.sum(), np.int64), -np.ones(keep.sum(), np.int64)])
    order = np.lexsort((step, at))
    at, count = at[order], np.cumsum(step[order])
    ends = np.append(at[1:] != at[:-1], True)
    at, count = at[ends], count[ends]
    best = np.flatnonzero(count == count.max())
    nearest = best[
        np.argmin(
            np.where((at[best] < 0) & (_next(at, best) > 0), 0, np.minimum(np.abs(at[best]), np.abs(_next(at, best))))
        )
    ]
    others = np.flatnonzero(count != count.max())  # the delays around it with as many
    last_before, next_after = (
        others[others < nearest].max(initial=-1),
        others[others > nearest].min(initial=len(at) - 1),
    )
    return int(at[last_before + 1]) + 1, int(at[next_after]), int(count.max())


def _next(at: Micros, places: npt.NDArray[np.int64]) -> Micros:
    return at[np.minimum(places + 1, len(at) - 1)]


def agreeing(seen: Sight, delay: int, samples: int) -> Flags:
    """Return which samples agree with a delay."""
    found = np.zeros(samples, np.bool_)
    found[seen.of[(seen.first < delay) & (delay <= seen.last)]] = True
    return found


@dataclass(frozen=True, slots=True)
class _Same:
    """Compares candidates with served values, in the precision in which these are served."""

    tolerance: Tolerance
    half: bool

    def __call__(self, candidate: Column, served: Column) -> Flags:
        return compared(candidate.in_half_precision() if self.half else candidate, served, self.tolerance).agree


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the rows of a view give for a feature: ``seen`` has the intervals with the served values, ``mixed_up`` those with
    served values that have changed places. ``ended`` are the samples with values of rows that are over, and ``usual`` is
    the share of samples whose own value is that of no row.
    """

    seen: Sight
    mixed_up: Sight
    ended: Flags
    usual: float

    @classmethod
    def of(cls, sight: Sight, values: Column, offline: Column, served: Column, rows: Micros, same: _Same) -> _Rows:
        seen, mixed_up = (sight.gives(values, some, same) for some in (served, _mixed_up(served, rows)))
        usual = _none(sight.gives(values, offline, same), len(served)).mean()
        return cls(seen, mixed_up, sight.ended(values, served, same), float(usual))


def causes_of(
    name: str,
    kept: Kept,
    found: Found,
    tolerance: Tolerance,
    elsewhere: Mapping[str, Flags],
    sights: Mapping[int, Sight],
) -> tuple[int, list[Cause], float | None, dict[str, Sight]]:
    """Return how many differences of a feature were looked at, their causes, the share without one, and the delays with which
    all samples would agree, by view. ``elsewhere`` has for each view the samples whose values are those of another key, and
    ``sights`` what samples see of each :class:`Versions`, by its identity.
    """
    offline, served = kept.offline[name], kept.served[name]
    differ = ~compared(offline, served, tolerance).agree
    same = _Same(tolerance, _is_half(offline, served, differ))
    delays = {
        view: sights[id(of)].gives(of.features[name], served, same) for view, of in found.versions.get(name, {}).items()
    }
    tried_for = np.ones(len(kept), np.bool_)
    for view in delays:
        tried_for &= sights[id(found.versions[name][view])].covers(len(kept))
    differ &= tried_for
    rows = np.flatnonzero(differ)
    if not len(rows):
        return 0, [], None, delays
    mine, theirs = offline.take(rows), served.take(rows)
    tried = [
        *_of_form(mine, theirs, same),
        *(
            h
            for view, of in found.versions.get(name, {}).items()
            for h in _of_versions(
                view,
                of,
                _Rows.of(sights[id(of)], of.features[name], offline, served, rows, same),
                rows,
                kept.at_random & tried_for,
            )
        ),
        *_of_alternatives(name, found.alternatives, rows, theirs, same),
        *(
            Hypothesis(
                "another key",
                (flags & ~_of_own(delays.get(view), len(kept)))[rows],
                f"with the row of `{view}` of another key",
                "check which key the service looks up.",
            )
            for view, flags in elsewhere.items()
        ),
    ]
    causes, rest = _named(name, tried, len(rows))
    return len(rows), causes, rest, delays


def _mixed_up(served: Column, rows: Micros) -> Column:
    """Return served values of which those in ``rows`` have changed places."""
    places = np.arange(len(served))
    places[rows] = np.random.default_rng(len(rows)).permutation(rows)
    return served.take(places)


def _of_own(seen: Sight | None, samples: int) -> Flags:
    """Return the samples whose served values some row of their own keys has."""
    own = np.zeros(samples, np.bool_)
    if seen is not None:
        own[seen.of[seen.found]] = True
    return own


def _is_half(offline: Column, served: Column, differ: Flags) -> bool:
    """Whether all served numbers are those of float16, though the offline ones are not, and this explains a part."""
    if offline.values.dtype != np.float64 or served.values.dtype != np.float64 or not len(served.values):
        return False
    if not _fits_half(served) or _fits_half(offline):
        return False
    half = compared(offline.in_half_precision(), served, Tolerance(relative=0.0)).equal
    return bool((half & differ).sum() >= max(1, _LEAST_OF_ALL * differ.sum()))


def _fits_half(column: Column) -> bool:
    return bool(np.array_equal(column.in_half_precision().values, column.values, equal_nan=True))


def _named(name: str, tried: Sequence[Hypothesis], count: int) -> tuple[list[Cause], float]:
    """Name the causes, first the one that explains most, and return them with the share that none explains."""
    left = np.ones(count, np.bool_)
    causes: list[Cause] = []
    while left.any():
        # Other hypotheses compare in the served precision, so they explain what precision explains, too.
        best = max(tried, key=lambda one: _rank(one, left, first=not causes), default=None)
        new = 0 if best is None else int((best.explains & left).sum())
        if best is None or new < max(1, _LEAST * count):
            break
        share = float(best.explains.mean())
        of_rest = "of the other differences" if causes else "of the differences"
        figure = new / int(left.sum()) if causes else share
        sentence = f"`{name}` is served {best.words} in {figure:.1%} {of_rest}."
        if best.advice:
            sentence = f"{sentence[:-1]}: {best.advice}"
        causes.append(Cause(best.name, share, new / count, sentence))
        left &= ~best.explains
    return causes, float(left.mean())


def _rank(hypothesis: Hypothesis, left: Flags, *, first: bool) -> tuple[bool, int]:
    explains = int((hypothesis.explains & left).sum())
    return hypothesis.is_of_all and first and explains >= _LEAST * len(left), explains


def _of_form(offline: Column, served: Column, same: _Same) -> Iterator[Hypothesis]:
    """Try other forms of the same value: none at all, precision, rounding, a factor, a shift."""
    nothing = offline.present & ~served.present
    if offline.single and served.single:
        nothing |= np.isfinite(offline.numbers()) & np.isnan(served.numbers())
    yield Hypothesis("no value", nothing, "without a value", "look-ups fail, or the features are logged too early.")
    if same.half:
        yield Hypothesis(
            "precision", same(offline, served), "as float16", "serve float32, or declare a tolerance.", True
        )
    if not (offline.single and served.single):
        return
    mine, theirs = offline.numbers(), served.numbers()
    both = np.isfinite(mine) & np.isfinite(theirs)
    if both.sum() < _FEWEST or len(np.unique(mine[both])) < 3:
        return
    if np.array_equal(theirs[both], np.trunc(theirs[both])):
        for how, whole in (("rounded", np.round(mine)), ("cut to whole numbers", np.trunc(mine))):
            yield Hypothesis("precision", both & (whole == theirs), how, "serve the number as it is.")
    yield from _factor(mine, theirs, both)
    yield from _shift(mine, theirs, both, offline.values.dtype)


def _factor(mine: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64], both: Flags) -> Iterator[Hypothesis]:
    usable = both & (mine != 0) & (theirs != 0)
    if usable.sum() < _FEWEST:
        return
    factor = float(np.median(theirs[usable] / mine[usable]))
    near = next((f for one in _FACTORS for f in (one, 1 / one) if abs(factor / f - 1) < 1e-3), factor)
    explains = usable & (np.abs(theirs / np.where(mine == 0, 1, mine) / near - 1) < 1e-3)
    if (
        explains.sum() >= max(_FEWEST, 0.3 * usable.sum())
        and abs(near - 1) > 1e-3
        and len(np.unique(mine[explains])) >= 3
    ):
        unit = next(
            (f", as between {what} and the whole" for one, what in _FACTORS.items() if near in (one, 1 / one)), ""
        )
        yield Hypothesis("unit", explains, f"{near:g} times as large", f"the units differ by this factor{unit}.")


def _shift(
    mine: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64], both: Flags, kind: npt.DTypeLike
) -> Iterator[Hypothesis]:
    apart = (theirs - mine)[both]
    # Numbers of float32 are apart by a constant only up to their precision.
    exact = 0.0 if kind == np.int64 else 8 * 2.0**-24 * float(np.max(np.abs([mine[both], theirs[both]])))
    values, often = np.unique(np.round(apart / max(exact, 1e-6)), return_counts=True)
    if often.max() < max(_FEWEST, 0.3 * both.sum()):
        return
    near = np.abs(apart / max(exact, 1e-6) - values[np.argmax(often)]) <= 1
    shift = float(np.median(apart[near]))
    if abs(shift - round(shift, 3)) <= exact:
        shift = round(shift, 3)
    explains = both & (np.abs(theirs - mine - shift) <= 2 * max(exact, 1e-6))
    if len(np.unique(mine[explains])) < 3 or explains.sum() < max(_FEWEST, 0.5 * both.sum()):
        return
    hours = abs(shift) >= 3600 and shift % 900 == 0
    name, advice = ("zone", "check the time zone.") if hours else ("shift", "check the formula.")
    yield Hypothesis(name, explains, f"{shift:+g} apart", advice)


def _of_versions(view: str, versions: Versions, tried: _Rows, rows: Micros, at_random: Flags) -> Iterator[Hypothesis]:
    """Try rows of the view that are older or newer than the one of the sample, rows that are over, and no row. What agrees
    as often by chance explains nothing.
    """
    samples = len(at_random)
    seen = tried.seen
    of, mixed_up = (some.where(np.isin(some.of, rows)) for some in (seen, tried.mixed_up))
    none = _none(of, samples)[rows]
    if none.mean() > min(1.5 * tried.usual, (1 + tried.usual) / 2):
        words = f"as if `{view}` had no row"
        yield Hypothesis("no row", none, words, "look-ups fail or come too late; count them in the service.")
    yield Hypothesis(
        "ended row",
        tried.ended[rows],
        f"with a row of `{view}` that is over",
        "the service does not look at its end, `tombstone` or `ttl`, or the snapshot lacks it.",
    )
    for positive in (True, False):
        first, last, count = best_delay(of, positive=positive)
        if count and best_delay(mixed_up, positive=positive)[2] <= _BY_CHANCE * count:
            delay = _as_all(seen.where(at_random[seen.of]), first, last)
            now, then = (float(agreeing(seen, d, samples)[at_random].mean()) for d in (0, delay))
            yield Hypothesis(
                "late row" if positive else "early row",
                agreeing(of, delay, samples)[rows],
                _when(delay),
                _advice(view, versions, delay, now, then),
            )
    late = of.found & (of.last > 0)
    older, anyhow = _any_older(of, samples), _any_older(mixed_up, samples)
    if anyhow.sum() > _BY_CHANCE * older.sum():
        return
    typical = format_span(int(np.median(np.maximum(of.first[late], 1)))) if late.any() else ""
    yield Hypothesis("older row", older[rows], f"with an older row of `{view}`, at least {typical} late in half of the cases,",
                     "the delay of the store varies; see when it is written.")  # fmt: skip


def _none(seen: Sight, samples: int) -> Flags:
    none = np.zeros(samples, np.bool_)
    none[seen.of[~seen.found]] = True
    return none


def _any_older(seen: Sight, samples: int) -> Flags:
    older = np.zeros(samples, np.bool_)
    older[seen.of[seen.found & (seen.last > 0)]] = True
    return older


def _as_all(seen: Sight, first: int, last: int) -> int:
    """Return the delay between both with which most samples agree, those that do not differ too."""
    within = replace(seen, first=np.maximum(seen.first, first - 1), last=np.minimum(seen.last, last))
    closest, farthest, count = best_delay(within)
    return shown_delay(closest, farthest) if count else shown_delay(first, last)


def _when(delay: int) -> str:
    if abs(delay) < _SKEW:
        return f"{format_span(abs(delay))} {'late' if delay > 0 else 'early'}"
    return f"{format_span(delay)} late" if delay > 0 else f"{format_span(-delay)} earlier than the job sees it"


def _advice(view: str, versions: Versions, delay: int, now: float, then: float) -> str:
    if abs(delay) < _SKEW:
        return "the clocks of service and logs differ, or rows arrive at the same moment."
    if then < now:
        return "only for a part of the keys or servers, since all samples together agree less with such a delay."
    wanted = versions.delay + timedelta(microseconds=delay)
    if wanted < timedelta():
        return f"`{view}` is known before the time that the samples take for it."
    after = format_span(wanted // timedelta(microseconds=1))
    how = f"with `{versions.setting}: {after}` of `{view}`"
    if bool(((versions.end != NO_TIME) & (versions.end > versions.event)).any()):
        how = f"{how}, and its ends (`closed_available`) as much later,"
    if versions.setting is None:
        how = f"if the `available_time` of `{view}` were {format_span(delay)} later,"
    return f"{how} agreement would be {then:.1%} ({now:.1%} now)."


def shown_delay(first: int, last: int) -> int:
    """Return a delay between both, inclusive, that is a whole number of large units if there is one."""
    if first <= 0 <= last:
        return 0
    low, high = (first, last) if first > 0 else (-last, -first)
    for unit in (86400, 3600, 900, 300, 60, 30, 10, 1):
        whole = -(-low // (unit * _SECOND)) * unit * _SECOND
        if whole <= high:
            return whole if first > 0 else -whole
    return first if first > 0 else last


def format_span(micros: int) -> str:
    """Format a delay as the configuration has durations, rounded up to seconds."""
    return format_duration(timedelta(seconds=-(-micros // _SECOND)))


def _of_alternatives(
    name: str, alternatives: Sequence[tuple[Alternative, Column]], rows: Micros, served: Column, same: _Same
) -> Iterator[Hypothesis]:
    advice = {
        "state": "load the fitted state of the samples that the model was trained with.",
        "definition": "the service follows another configuration than the samples.",
    }
    for form, values in alternatives:
        if form.of == name:
            yield Hypothesis(form.cause, same(values.take(rows), served), form.what, advice[form.cause])
