"""How each view is joined. Pure: maps facts about views to steps, and steps to text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Method = Literal["shuffle", "broadcast"]


@dataclass(frozen=True, slots=True)
class ViewFacts:
    """Facts about a view before it is joined.

    ``on`` is its join key, and ``level`` the length of the chain of views to join before it, each of which provides a
    key for the next. ``bytes`` is the size of its files, or None if unknown (tables, views counted from a log).
    ``bytes_in_memory`` is None unless measured. ``method`` is the configured method.
    """

    name: str
    on: tuple[str, ...]
    bytes: int | None = None
    bytes_in_memory: int | None = None
    method: Method | None = None
    level: int = 0


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """Maximum size of broadcast views, and minimum log size for measuring hot keys.

    The smallest views are broadcast, as long as together they need at most ``broadcast_bytes`` of memory. If the
    impression log has ``measured_bytes`` or an unknown size, several tasks share the keys with about
    ``rows_of_a_hot_key`` impressions, estimated from a ``sample`` of the log.
    """

    broadcast_bytes: int = 64 * 2**20
    measured_bytes: int = 256 * 2**20
    rows_of_a_hot_key: int = 500_000
    sample: float = 0.02


@dataclass(frozen=True, slots=True)
class JoinStep:
    """Join of one or more views on the same keys, with the method and the reason for it. A broadcast leaves the
    impressions in place and in order.
    """

    method: Method
    views: tuple[str, ...]
    on: tuple[str, ...]
    reason: str


def plan_joins(views: Sequence[ViewFacts], limits: JoinLimits = JoinLimits()) -> tuple[JoinStep, ...]:
    """Return the steps in execution order.

    Level by level: a view that provides a key is joined before the views on that key. Within a level, joins that
    shuffle the impressions come first, key by key, so that broadcast columns do not go through those shuffles.
    """
    steps: list[JoinStep] = []
    broadcast = _broadcast(views, limits)
    for level in range(1 + max((view.level for view in views), default=0)):
        steps += _one_level([view for view in views if view.level == level], broadcast)
    return tuple(steps)


def order_steps(steps: Sequence[JoinStep], needed: Iterable[str] = ()) -> tuple[Sequence[JoinStep], Sequence[JoinStep]]:
    """Return the steps before the impressions move to their final place, and those after.

    A broadcast view comes after, since its columns need not travel then. It comes before too if it is ``needed`` there,
    or if a view that comes before has a key from it.
    """
    before = set(needed)
    for step in reversed(steps):
        if step.method == "shuffle" or before & {*step.views}:
            before |= {part.partition(".")[0] for part in step.on if "." in part}
    early = [step for step in steps if step.method == "shuffle" or before & {*step.views}]
    return early, [step for step in steps if step.method == "broadcast"]


def views_of(steps: Iterable[JoinStep]) -> list[str]:
    """Return the names of the views that the steps join, in order."""
    return [name for step in steps for name in step.views]


def described(steps: Sequence[JoinStep]) -> Iterator[str]:
    """Yield one line of text per step."""
    for number, step in enumerate(steps, 1):
        on = " and ".join(step.on)
        yield f"{number}. {', '.join(step.views)} by {_WORDS[step.method]} on the {on}: {step.reason}"


def _broadcast(views: Sequence[ViewFacts], limits: JoinLimits) -> set[str]:
    """Names of the views that together are small enough to broadcast."""
    names, total = set(), 0
    for view in sorted(views, key=lambda view: (view.bytes_in_memory or 0, view.name)):
        if view.bytes_in_memory is None or view.method == "shuffle":
            continue
        total += view.bytes_in_memory
        if total <= limits.broadcast_bytes:
            names.add(view.name)
    return names


def _one_level(views: Sequence[ViewFacts], broadcast: Collection[str]) -> Iterator[JoinStep]:
    moved = sorted((view for view in views if _moves(view, broadcast)), key=lambda view: view.on)
    shared = [(on, list(group)) for on, group in groupby(moved, key=lambda view: view.on)]
    # The columns of each group go through the shuffles of all later groups, so the largest group comes last.
    for on, group in sorted(shared, key=lambda one: sum(view.bytes or 0 for view in one[1])):
        names = tuple(view.name for view in group)
        yield JoinStep("shuffle", names, on, _ONE if len(names) == 1 else _SHARED)
    for view in views:
        if not _moves(view, broadcast):
            why = _ASKED if view.method is not None else f"it is small ({view.bytes_in_memory:,} bytes)"
            yield JoinStep("broadcast", (view.name,), view.on, why)


def _moves(view: ViewFacts, broadcast: Collection[str]) -> bool:
    return view.method != "broadcast" and view.name not in broadcast


_WORDS: dict[Method, str] = {"shuffle": "a shuffle", "broadcast": "broadcast"}
_ASKED = "the configuration asks for it"
_ONE = "one shuffle of impressions and rows"
_SHARED = "one shuffle for all of them"
