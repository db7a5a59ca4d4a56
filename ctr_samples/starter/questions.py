"""Questions about the inputs: candidates, best first, each with its evidence in words, and who answers.

A question is decided by the facts if one candidate has more of them than each other one. An open one is asked on a terminal;
without one its first candidate stands in the draft, beside the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ctr_samples.errors import UsageError

_LISTED = 40
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Candidate(Generic[T]):
    """A possible answer, by the name that an option gives it. ``facts`` rank it: the weightiest first, more is better."""

    value: T
    name: str
    evidence: str = ""
    facts: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question, with the option that answers it and the candidates, best first."""

    option: str
    asks: str
    candidates: tuple[Candidate[Any], ...]
    may_be_none: bool = True

    @property
    def is_open(self) -> bool:
        """Whether no candidate has more facts than each other one."""
        best = [one.facts for one in self.candidates[:2]]
        return len(best) == 2 and best[0] == best[1]

    @property
    def in_words(self) -> str:
        """The question with the candidates that have most facts, for a draft that nobody was asked about."""
        first, *others = [one for one in self.candidates if one.facts == self.candidates[0].facts]
        listed = "; ".join(f"{one.name}: {one.evidence}" for one in others)
        taken = f"{self.asks} Taken is {first.name}: {first.evidence}. With as much evidence: {listed}."
        return f"{taken} Say `--{self.option} NAME`."


Ask = Callable[[Question], Candidate[Any] | None]


@dataclass
class Answers:
    """Answers questions: by what was ``told`` as options, by the facts, or by asking. ``open`` has what nobody answered."""

    told: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ask: Ask | None = None
    open: dict[str, Question] = field(default_factory=dict)
    given: dict[str, list[str]] = field(default_factory=dict)
    """What was answered before, by option."""

    def names(self, option: str) -> Sequence[str]:
        """Return what an option names."""
        return self.told.get(option) or ()

    def to(self, option: str, asks: str, candidates: Iterable[Candidate[T]], *, may_be_none: bool = True) -> T | None:
        """Return the value of the answer to a question, or None if there is no candidate, or none was chosen.

        Raises UsageError if an option names none of the candidates.
        """
        ranked = tuple(sorted(candidates, key=lambda one: one.facts, reverse=True))
        chosen = self._chosen(Question(option, asks, ranked, may_be_none))
        if chosen is None:
            return None
        self.given.setdefault(option, []).append(chosen.name)
        value: T = chosen.value
        return value

    def _chosen(self, question: Question) -> Candidate[Any] | None:
        ranked = question.candidates
        for name in self.names(question.option):
            if (named := next((one for one in ranked if name == one.name), None)) is not None:
                return named
            there = ", ".join(one.name for one in ranked[:_LISTED]) or "none"
            raise UsageError(f"`--{question.option}` is {name}, expected one of: {there}.")
        if not ranked or not question.is_open:
            return ranked[0] if ranked else None
        if self.ask is not None:
            return self.ask(question)
        self.open[question.option] = question
        return ranked[0]

    def todo(self, option: str) -> str:
        """Return an open question in words, or an empty string."""
        return self.open[option].in_words if option in self.open else ""
