"""Numbers that are written as text: with a decimal comma, in groups of three digits, with a unit or a currency."""

from __future__ import annotations

import re
from dataclasses import replace

from ctr_samples.starter.tables import Column

_AMOUNT = re.compile(r"(\D*?)([+-]?\d[\d\s.,'’]*?)((?:\s*[^\d\s.,'’]\D*)?)")


def with_numbers(column: Column) -> Column:
    """Return a text column as the numbers that its values are, with the SQL that reads them. Any other stays as it is."""
    texts = {str(value) for value in column.present} if column.is_text else set()
    found = {text: match for text in texts if (match := _AMOUNT.fullmatch(text))}
    units = {(match[1], match[3]) for match in found.values()}
    if not texts or len(found) < len(texts) or len(units) > 1 or any(_is_joined(*unit) for unit in units):
        return column
    numbers = {text: match[2] for text, match in found.items()}
    if not any(re.search(r"\d\D\d", number) for number in numbers.values()):
        return column
    mark = next((mark for mark in ",." if any(_ends_with(mark, number) for number in numbers.values())), None)
    group = re.escape({",": ".", ".": ","}.get(mark or "", ".,"))
    whole = rf"[+-]?(?:\d+|\d{{1,3}}(?:[\s{group}'’]\d{{3}})+)" + (rf"(?:[{mark}]\d+)?" if mark else "")
    if not all(re.fullmatch(whole, number) for number in numbers.values()):
        return column
    kept = f"[^0-9{mark or ''}+-]"
    values = {text: float(re.sub(kept, "", number).replace(",", ".")) for text, number in numbers.items()}
    plain = units == {("", "")} and not any(re.search(rf"[\s{group}'’]", number) for number in numbers.values())
    read = "{}" if plain else f"regexp_replace({{}}, '{kept}', '')"
    read = f"replace({read}, ',', '.')" if mark == "," else read
    longest = max(sorted(texts), key=len)
    return replace(
        column,
        kind="DOUBLE",
        values=[values.get(str(value)) for value in column.values],
        read=f"try_cast({read} as double)",
        said=f"text such as '{longest}', read as {values[longest]:g}",
    )


def _ends_with(mark: str, number: str) -> bool:
    """Whether a mark stands before the decimals of a number: once, with other than three digits behind it."""
    head, found, tail = number.rpartition(mark)
    return bool(found) and mark not in head and len(tail) != 3


def _is_joined(before: str, after: str) -> bool:
    """Whether Latin letters touch a number, as in a code."""
    return any(letter.isascii() and letter.isalnum() for letter in (before[-1:], after[:1]))
