"""Pages of sections, which hold tables, charts and text. A page is one file that loads nothing from the network and escapes
all text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Literal, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

ROWS = 200
"""Largest number of rows of a table. The page says how many it leaves out."""

_TURNING = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
"""Bidirectional control characters and their escapes. Unescaped, they could reorder the text around a value."""


class Part(Protocol):
    """What stands in a section: a table, a chart, or :class:`Markup`. One without content has no HTML."""

    def __html__(self) -> Markup:
        """Return the HTML of the part."""


Kind = Literal["text", "long", "number", "bar"]


@dataclass(frozen=True, slots=True)
class Header:
    """A column header. Only screen readers see the title of a bar column."""

    title: str
    kind: Kind = "number"


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of text and drawings. The first cell of a row is its header. ``hidden`` counts the omitted rows, and ``listed``
    says where all are.
    """

    caption: str
    columns: tuple[Header, ...]
    rows: tuple[tuple[str, ...], ...]
    hidden: int = 0
    style: str = ""
    listed: str = "metrics.json"

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __html__(self) -> Markup:
        return _part("table", self)

    def styled(self, style: str, listed: str = "metrics.json") -> PageTable:
        """Return the table in another style, for one whose rows are all in ``listed``."""
        return replace(self, style=style, listed=listed)


def table(caption: str, titles: str, rows: Iterable[Sequence[str]], limit: int = ROWS) -> PageTable:
    """Build a table from titles such as ``<view | matched | =share``. ``<`` marks text, ``~`` sentences, ``=`` bars.

    Keeps at most ``limit`` rows.
    """
    kinds: dict[str, Kind] = {"<": "text", "~": "long", "=": "bar"}
    columns = [
        Header(title.lstrip("<~="), kinds.get(title[:1], "number")) for title in map(str.strip, titles.split("|"))
    ]
    remaining = iter(rows)
    kept = tuple(tuple(row) for row in islice(remaining, limit))
    return PageTable(caption, tuple(columns), kept, hidden=sum(1 for _ in remaining))


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with its texts: the labels of the ``scale`` beside it, from the top, and those of the ``axis`` below it."""

    drawing: Markup
    title: str = ""
    note: str = ""
    scale: Sequence[str] = ()
    axis: Sequence[str] = ()

    def __html__(self) -> Markup:
        return _part("chart", self)


@dataclass(frozen=True, slots=True)
class Card:
    """A feature with its own frame, which the field above finds by its name. ``remark`` stands at its right."""

    name: str
    parts: Iterable[Part]
    anchor: str = ""
    kind: str = ""
    remark: str = ""
    standing: str = ""
    tag: str = ""

    def __html__(self) -> Markup:
        return _part("card", self)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page. ``title`` stands in the list of sections, and above it unless it has a ``heading`` of its own, with
    the number of what it shows as ``count``. ``tone`` is that of a verdict.
    """

    anchor: str
    title: str
    parts: Iterable[Part]
    heading: str = ""
    count: str = ""
    tone: str = ""


def paragraph(style: str, text: str) -> Markup:
    """Return a paragraph, or nothing if it has no text."""
    return Markup('<p class="{}">{}</p>\n').format(style, prose(text)) if text else Markup()


def prose(text: str) -> Markup:
    """Return a text as HTML. What stands between backticks is code, if each has its partner."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup().join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def left_out(number: int, listed: str = "metrics.json") -> Markup:
    """Say how many entries are left out, and what lists them."""
    return paragraph("more", f"{number:,} more are not shown here; {listed} lists them all." if number > 0 else "")


def group(style: str, *parts: Part) -> Markup:
    """Put parts into an element of their own."""
    return Markup('<div class="{}">\n{}</div>\n').format(style, Markup().join(parts))


def beside(left: Sequence[Part], right: Sequence[Part]) -> Markup:
    """Put parts beside each other, if there is room. A side without content leaves its room to the other."""
    sides = (Markup().join(parts).strip() for parts in (left, right))
    return group("pair", *(Markup("<div>{}</div>\n").format(side) for side in sides if side))


def folded(summary: str, inside: Part) -> Markup:
    """Hide a part behind a summary."""
    return Markup("<details><summary>{}</summary>\n{}</details>\n").format(summary, inside) if inside else Markup()


def alerts(found: Iterable[tuple[str, Markup]]) -> Markup:
    """List findings, each with its standing."""
    items = Markup().join(Markup('<li class="{}">{}</li>\n').format(*one) for one in found)
    return Markup('<ol class="findings">\n{}</ol>\n').format(items) if items else Markup()


def finder(label: str, example: str = "") -> Markup:
    """Return the field that finds a feature by a part of its name. The script shows it."""
    return Markup(
        '<p class="filter" hidden><label for="filter">{}</label> <input id="filter" type="search" placeholder="{}" '
        'autocomplete="off" spellcheck="false"> <output id="found" for="filter"></output></p>\n'
    ).format(label, example)


def page(
    kind: str,
    title: str,
    subtitle: Sequence[str],
    sections: Sequence[Section],
    *,
    tiles: Iterable[tuple[str, str, str]] = (),
    extra: Sequence[str] = (),
    under_links: Markup = Markup(),  # noqa: B008  a constant
) -> str:
    """Render a page. ``tiles`` are figures at its top: what it is, its value and its change. ``extra`` names further styles and
    scripts.
    """
    values = {"kind": kind, "title": title, "subtitle": subtitle, "sections": sections, "tiles": tuple(tiles)}
    template = _environment().get_template("page.html.j2")
    visible = template.render(**values, under_links=under_links, **_inlined(tuple(extra))).translate(_TURNING)
    return visible.encode("utf-8", "backslashreplace").decode()  # the data may contain lone surrogates


def _part(macro: str, part: Part) -> Markup:
    """Render a part by the macro of its kind."""
    html: Markup = getattr(_environment().get_template("parts.html.j2").module, macro)(part)
    return html


@cache
def _environment() -> Environment:
    """Return the template environment, in which an undefined name raises an error."""
    return Environment(
        loader=PackageLoader("ctr_samples.quality"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _inlined(extra: tuple[str, ...]) -> Mapping[str, Markup]:
    """Return style and script, and a ``policy`` that allows no other code."""
    folder = files("ctr_samples.quality") / "templates"
    style, code = (
        "".join((folder / f"{name}.{kind}").read_text("utf-8") for name in ("page", *extra)) for kind in ("css", "js")
    )
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(code)}; base-uri 'none'; form-action 'none'"
    )
    return {"style": Markup(style), "script": Markup(code), "policy": Markup(policy)}  # noqa: S704  our own files


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
