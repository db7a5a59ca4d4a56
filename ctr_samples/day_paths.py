"""Paths with date and hour templates in any format: ``{date}``, ``{date:%Y%m%d}``, ``{hour}``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

_NAMED = re.compile(r"\{(date|hour)(?::([^}]*))?\}")
_DEFAULTS = {"date": "%Y-%m-%d", "hour": "%H"}
_FIELD = re.compile(r"%-?[A-Za-z]")
_FIELDS = {
    "date": {
        "%Y": (r"\d{4}", "[0-9][0-9][0-9][0-9]"),
        "%m": (r"\d\d", "[0-1][0-9]"),
        "%d": (r"\d\d", "[0-3][0-9]"),
        "%-m": (r"\d\d?", "{[1-9],[1][0-2]}"),
        "%-d": (r"\d\d?", "{[1-9],[1-3][0-9]}"),
    },
    "hour": {"%H": (r"\d\d", "[0-2][0-9]"), "%-H": (r"\d\d?", "{[0-9],[1-2][0-9]}")},
}
"""Regular expression and Hadoop glob for each template field."""
_ANY = {field: how for fields in _FIELDS.values() for field, how in fields.items()}
_BETWEEN = re.compile(r"[\w.,=+ /-]*", re.ASCII)
_SAFE = re.compile(r"[\w.=-]+", re.ASCII)
"""Text that Spark writes unescaped into a file path."""


@dataclass(frozen=True, slots=True)
class DayPath:
    """A path in a source's configuration. Globs do not match slashes, so components of a match are counted from its
    end.
    """

    path: str

    def problem(self) -> str | None:
        """Describe the first fault of the templates, or return None if the path is valid."""
        for template in sorted(set(re.findall(r"\{[^}]*\}", self.path))):
            if (problem := _problem(template)) is not None:
                return problem
        fields = {field.replace("-", "") for _, field in _pieces(self.path) if field is not None}
        missing = [name for field, name in (("%Y", "year"), ("%m", "month"), ("%d", "day")) if field not in fields]
        if self.is_dated and missing:
            return f"{self.path} names no {' and no '.join(missing)}; name the whole day, as {{date:%Y/%m/%d}} does"
        return "`{hour}` needs `{date}` in the path too" if self.is_hourly and not self.is_dated else None

    @property
    def is_dated(self) -> bool:
        """Whether the path contains the date."""
        return "{date" in self.path

    @property
    def is_hourly(self) -> bool:
        """Whether the path contains the hour."""
        return "{hour" in self.path

    def filled(self, day: date | None, hour: int | None) -> str:
        """Fill in the day and the hour. If either is None, its templates stay."""
        values = {"Y": day and day.year, "m": day and day.month, "d": day and day.day, "H": hour}

        def fill(template: re.Match[str]) -> str:
            if (day if template[1] == "date" else hour) is None:
                return template[0]
            return _FIELD.sub(lambda field: _digits(field[0], values[field[0][-1]] or 0), _form(template))

        return _NAMED.sub(fill, self.path)

    def glob(self, which: str) -> str:
        """Replace every ``date`` or ``hour`` template with a glob."""
        return _NAMED.sub(
            lambda found: _FIELD.sub(lambda field: _ANY[field[0]][1], _form(found)) if found[1] == which else found[0],
            self.path,
        )

    @property
    def spread(self) -> str:
        """The path with templates split at slashes, so that ``{date:%Y/%m}`` becomes ``{date:%Y}/{date:%m}``."""
        return _NAMED.sub(_spread, self.path)

    def names(self) -> list[str]:
        """Return the components of the path, each with its own template."""
        return self.spread.rstrip("/").split("/")

    @property
    def key(self) -> str | None:
        """The partition key if a single directory name contains the whole date: ``dt`` for ``users/dt={date}``, else
        None.
        """
        for name in self.names():
            match = re.fullmatch(r"([A-Za-z_][\w-]*)=(\{date[^{}]*\})", name, re.ASCII)
            if match is not None and DayPath(match[2]).problem() is None:
                return match[1]
        return None

    @property
    def from_end(self) -> int:
        """The position of the first component with a date, counted from the end (the last is 1)."""
        names = self.names()
        return len(names) - next(i for i, name in enumerate(names) if "{date" in name)

    def day_pattern(self) -> tuple[str, list[int]]:
        """Return a regular expression for the date components, in Java and Python, and its groups of year, month and
        day.
        """
        pattern, groups = "", dict[str, int]()
        for text, field in _pieces("/".join(self._dated_names())):
            pattern += _literal(text)
            if field is not None:
                pattern += f"({_ANY[field][0]})"
                groups[field.replace("-", "")] = pattern.count("(")
        return f"{pattern}(/|$)", [groups[field] for field in ("%Y", "%m", "%d")]

    def iso_place(self) -> tuple[int, int] | None:
        """Return the number of the date components, and the place in their text of the day as in ``2019-06-05``. None if the
        day is written otherwise, or its place differs from path to path.
        """
        names = self._dated_names()
        before, *parts = _NAMED.split("/".join(names))[:3]
        fixed = all(map(_SAFE.fullmatch, filter(None, before.split("/"))))
        is_iso = parts[0] == "date" and parts[1] in (None, _DEFAULTS["date"])
        return (len(names), len(before)) if fixed and is_iso else None

    def _dated_names(self) -> list[str]:
        names = self.names()[-self.from_end :]
        return names[: 1 + max(i for i, name in enumerate(names) if "{date" in name)]

    def day_of(self, found: str) -> date | None:
        """Parse the day from a path that matches this template.

        Returns None if there is no match or the date is invalid.
        """
        pattern, groups = self.day_pattern()
        match = re.match(pattern, "/".join(found.rstrip("/").split("/")[-self.from_end :]))
        try:
            return None if match is None else date(*(int(match[group]) for group in groups))
        except ValueError:
            return None


def pattern_of(template: str) -> str | None:
    """Return a regular expression that matches a filled-in date or hour template, or None for any other template."""
    if _NAMED.fullmatch(template) is None:
        return None
    return "".join(re.escape(text) + (_ANY[field][0] if field else "") for text, field in _pieces(template))


def _problem(template: str) -> str | None:
    match = _NAMED.fullmatch(template)
    if match is None:
        return (
            f"the only templates in a path are {{date}} and {{hour}}, as they are or as {{date:%Y%m%d}}, not {template}"
        )
    fields, form = _FIELDS[match[1]], _form(match)
    found = _FIELD.findall(form)
    if found and set(found) <= set(fields) and _BETWEEN.fullmatch(_FIELD.sub("", form)):
        return None
    return f"found {template}, expected a form of {', '.join(fields)} with plain characters between them"


def _form(template: re.Match[str]) -> str:
    return _DEFAULTS[template[1]] if template[2] is None else template[2]


def _pieces(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each template field with the text before it, and finally the text after the last field, with None."""
    plain, end = "", 0
    for template in _NAMED.finditer(text):
        plain, end, at = plain + text[end : template.start()], template.end(), 0
        for field in _FIELD.finditer(_form(template)):
            yield plain + _form(template)[at : field.start()], field[0]
            plain, at = "", field.end()
        plain += _form(template)[at:]
    yield plain + text[end:], None


def _spread(template: re.Match[str]) -> str:
    parts = _form(template).split("/")
    return "/".join(f"{{{template[1]}:{part}}}" if _FIELD.search(part) else part for part in parts)


def _literal(text: str) -> str:
    """Return a regular expression for literal text. Globs, and characters that Spark escapes, match any text."""
    pieces: Sequence[str] = re.findall(r"[\w.=-]+|/|(?:\[[^\]]*\]|\\.|[^\w.=/\\[-])+", text, re.ASCII)
    return "".join(re.escape(piece) if piece == "/" or _SAFE.fullmatch(piece) else "[^/]*?" for piece in pieces)


def _digits(field: str, number: int) -> str:
    return f"{number:0{1 if '-' in field else 4 if field == '%Y' else 2}}"
