"""File of the values to forget: one value per line, exactly as in the samples."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from ctr_samples.errors import UsageError

_EXPECTED = "`--values` names a file with one value in each line"
_QUOTES = "\"'`\u2018\u2019\u201a\u201c\u201d\u201e\xab\xbb"
_AROUND = f"{_QUOTES}\ufeff\u200b\u200c\u200d\u2060"
"""Characters that other programs add around values: quotes and invisible marks."""
_SHOWN = 10
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Values:
    """Values read from a file, each with the number of its first line."""

    file: str
    lines: dict[str, int]

    @classmethod
    def read(cls, file: Path) -> Values:
        r"""Read a file in UTF-8, with or without a byte order mark. Skips empty lines.

        Lines end at ``\n`` and ``\r\n``. Raises UsageError for a file that cannot be read or has no value.
        """
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UsageError(f"Cannot read {file}: {why}. {_EXPECTED}.") from None
        if "\0" in text:
            raise UsageError(f"Cannot read {file}: it has a zero byte, so it is no text in UTF-8. {_EXPECTED}.")
        lines: dict[str, int] = {}
        for number, line in enumerate(re.split(r"\r?\n", text), 1):
            if line:
                lines.setdefault(line, number)
        if not lines:
            raise UsageError(f"{file} has no line; {_EXPECTED}.")
        return cls(str(file), lines)

    @property
    def looked_for(self) -> list[str]:
        """Everything to search for: the values and, for :meth:`check`, their parts without quotes, blanks and commas."""
        return list(dict.fromkeys([*self.lines, *(part for line in self.lines for part in _parts(line))]))

    def check(self, found: Collection[str], what: str = "sample") -> str | None:
        """Describe the values that no sample has, if any. ``found`` is the subset of :attr:`looked_for` in the samples.

        ``what`` names what was searched instead of samples.

        Raises UsageError for a quoted line, and for a line of which the samples contain only a part, since neither
        would match the intended users.
        """
        missing = {line: number for line, number in self.lines.items() if line not in found}
        for line, number in missing.items():
            if _is_quoted(line) or any(part in found for part in _parts(line)):
                raise UsageError(
                    f"No {what} has the value in line {number} of {self.file}, which is {shown(line)}. Expected one value in "
                    f"each line as the {what}s have it, with no quotes, blanks or commas around it. Nothing was published; "
                    "correct the file and run again."
                )
        if not missing:
            return None
        numbers = ", ".join(map(str, list(missing.values())[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        lines = f"line {numbers}" if len(missing) == 1 else f"lines {numbers}"
        return f"{len(missing):,} of {len(self.lines):,} value(s) match no {what}: {lines} of {self.file}."


def shown(value: str) -> str:
    """Return a value of the file as quoted in errors."""
    return repr(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…")


def _is_quoted(line: str) -> bool:
    bare = line.strip()
    return len(bare) > 1 and bare[0] in _QUOTES and bare[-1] in _QUOTES


def _parts(line: str) -> Iterator[str]:
    """Yield the values that a line may mean if it is not a plain value."""
    for part in (line, *re.split(r"[,;|\s]", line)):
        before, bare = "", part
        while bare != before:
            before, bare = bare, bare.strip().strip(_AROUND)
        if bare and bare != line:
            yield bare
