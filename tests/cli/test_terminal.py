"""What reaches a terminal: data is never markup, never a control code, and never cut so that an id is lost."""

from __future__ import annotations

import errno
import io
import re
import shlex
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from ctr_samples.cli import outputs
from ctr_samples.cli.init import _print_list, _to_copy
from ctr_samples.cli.messages import errors_in_words
from ctr_samples.cli.terminal import Terminal, visible
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.job.progress import RunProgress
from ctr_samples.records import read as reading
from tests.support.command_line import invoke

HOSTILE = [
    "\x1b[2J\x1b[31m",
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    "\x9b31m",
    "\x00\x07\x08\x7f",
    "\u202egnp.exe",
    "\u2066hidden\u2069",
    "\u200e\u200f\u061c\ufeff",
    "\U000e0041",
    "a\rb",
    "a\nerror: b",
    "a\u2028b",
]
MARKUP = ["[/nope]", "[bold]x[/bold]", "[link=http://evil]x[/link]", ":smile:", "[red", "\\[x]"]


def written(make: Any) -> str:
    """What a function prints on a terminal of 100 columns without colours."""
    file = io.StringIO()
    make(Terminal(file=file, width=100, force_terminal=True, color_system=None))
    return file.getvalue()


@pytest.mark.parametrize("text", HOSTILE)
def test_no_character_that_a_terminal_obeys_is_passed_on(text: str) -> None:
    assert visible(text).isprintable()
    table = Table("a")
    table.add_row(text)
    for one in (text, table):
        shown = written(lambda console, one=one: console.print(one))
        assert all(character.isprintable() or character == "\n" for character in shown)


@pytest.mark.parametrize("text", ["Ünïcode 中文 한국어", "全\u3000角", "a\u00a0b", "👍", "back\\slash"])
def test_what_people_write_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize("text", MARKUP)
def test_data_is_no_markup(text: str) -> None:
    table = Table("a")
    table.add_row(text)
    assert text in written(lambda console: console.print(text))
    assert text in written(lambda console: console.print(table))
    assert text in written(lambda console: RunProgress(console).warn(text))


@pytest.mark.parametrize("text", [*MARKUP, *HOSTILE])
@pytest.mark.parametrize("debug", [False, True])
def test_an_error_tells_data_without_obeying_it(text: str, debug: bool) -> None:
    def fail(console: Terminal) -> None:
        with pytest.raises(typer.Exit), errors_in_words(debug, console):
            raise InputError(f"found {text}")

    shown = written(fail)
    assert all(character.isprintable() or character in "\n" for character in shown)
    if text in MARKUP:
        assert text in shown


def shown(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], count: int = 5) -> str:
    """What ``show`` prints of these examples."""
    contract = ExampleContract((FeatureSpec("user", "bytes"),)).to_dict()
    published = SimpleNamespace(contract=contract, of_split=lambda split: ())
    monkeypatch.setattr(outputs, "open_records", lambda output, date: (None, published))
    monkeypatch.setattr(reading, "first_examples", lambda *arguments: rows[:count])
    result = invoke("show", "somewhere", "-n", str(count))
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("text", [*MARKUP, *HOSTILE])
def test_show_prints_text_and_lists_of_text_as_they_are(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    said = shown(monkeypatch, [{"user": text.encode(), "tags": [text.encode(), b"b"]}])
    assert visible(text) in said
    assert f"[{visible(text)}, b]" in said
    assert all(character.isprintable() or character == "\n" for character in said)


@pytest.mark.parametrize("count", [1, 3, 40, 200])
def test_show_loses_no_id_and_leaves_no_cell_empty(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    rows = [{"user": f"user-{i:036}".encode(), "id": -(2**63) + i, "tags": [b"t" * 90] * 4} for i in range(count)]
    said = shown(monkeypatch, rows, count)
    for row in rows:
        assert row["user"].decode() in said
        assert str(row["id"]) in said
    assert said.count("t" * 90) == 4 * count


def test_show_tells_nothing_from_empty_and_bytes_from_text(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(monkeypatch, [{"a": None, "b": b"\xff\xd8" + bytes(30), "c": b"x" * 5000, "d": []}])
    assert re.search(r"a +│ null", said) or "a  null" in said
    assert "32 bytes: ff d8 00" in said
    assert "x" * 1000 + " … 5,000 characters" in said
    assert "[]" in said


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow"),
            "error: TensorFlow is not installed here",
        ),
        (
            ModuleNotFoundError("No module named 'keras'", name="keras.layers"),
            "error: TensorFlow is not installed here",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "scratch/x"),
            "error: The disk that holds scratch/x is full; free",
        ),
        (
            ConnectionRefusedError(111, "Connection refused"),
            "error: Spark's JVM has died, most likely out of memory",
        ),
        (MemoryError(), "error: Out of memory; use"),
        (ValueError("[/nope]"), "error: ValueError: [/nope]\nThis error was not expected."),
    ],
)
def test_a_cause_outside_is_told_with_what_to_do_and_anything_else_is_not_expected(
    error: Exception, sentence: str
) -> None:
    def fail(console: Terminal) -> None:
        with pytest.raises(typer.Exit) as caught, errors_in_words(False, console):
            raise error
        assert caught.value.exit_code == 1

    said = written(fail)
    assert said.startswith(sentence)
    assert ("This error was not expected" in said) == isinstance(error, ValueError)


@pytest.mark.parametrize("debug", [False, True])
def test_the_exit_code_is_the_same_with_debug(debug: bool) -> None:
    def fail(console: Terminal) -> None:
        with pytest.raises(typer.Exit) as caught, errors_in_words(debug, console):
            raise InputError("found 3, expected 4")
        assert caught.value.exit_code == 3

    assert ("Traceback" in written(fail)) == debug


def on_columns(width: int, renderable: Any) -> str:
    file = io.StringIO()
    Terminal(file=file, width=width, force_terminal=True, color_system=None).print(renderable)
    return file.getvalue()


def table_of(*rows: tuple[str, ...], no_wrap: bool = False, lines: Any = box.SIMPLE_HEAD) -> Table:
    """A table with as many columns as its rows have; the first row is the head."""
    table = Table(box=lines, pad_edge=False, show_header=lines is not None)
    for title in rows[0]:
        table.add_column(title, no_wrap=no_wrap)
    for row in rows if lines is None else rows[1:]:
        table.add_row(*row)
    return table


TABLES = {
    "days": (
        ("day", "generation", "samples", "clicked", "bought", "verdict", "seconds", ""),
        ("2019-06-03", "1", "4,001,234", "0.61%", "0.02%", "accepted", "1116.2", "published"),
        ("2019-06-04", "", "", "", "", "", "", "refused"),
    ),
    "sentences": (
        ("day", "generation", "samples", "clicked", "verdict", ""),
        ("2019-06-03T07", "12", "1,234", "6.50%", "warned", "its label windows have closed since it was made"),
    ),
    "scores": (
        ("category_of_the_article", "samples", "clicked", "log loss", "constant guess", "AUC", "calibration"),
        ("kitchen and household appliances", "1,056", "5", "0.0244", "0.0301", "0.889", "0.963"),
    ),
    "many columns": (tuple(f"label_{n}" for n in range(30)), tuple(f"{n}.25%" for n in range(30))),
}


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("no_wrap", [False, True])
@pytest.mark.parametrize("lines", [box.SIMPLE_HEAD, box.HEAVY_HEAD, None])
@pytest.mark.parametrize("name", TABLES)
def test_no_word_of_a_table_is_cut_however_narrow_the_terminal(
    width: int, no_wrap: bool, lines: Any, name: str
) -> None:
    text = on_columns(width, table_of(*TABLES[name], no_wrap=no_wrap, lines=lines))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    text = re.sub(r"[─-╿]", " ", text)
    if width >= 40:
        for row in TABLES[name][1:]:
            for word in " ".join(row).split():
                assert re.search(rf"(?<!\S){re.escape(word)}(?![^\s:,])", text), word


def test_a_table_that_is_too_wide_has_narrower_gaps_before_it_has_paragraphs() -> None:
    assert on_columns(80, table_of(*TABLES["days"])).splitlines()[1:-1] == [
        " day        generation samples   clicked bought verdict  seconds           ",
        " ───────────────────────────────────────────────────────────────────────── ",
        " 2019-06-03 1          4,001,234 0.61%   0.02%  accepted 1116.2  published ",
        " 2019-06-04                                                      refused   ",
    ]
    assert on_columns(60, table_of(*TABLES["days"])).splitlines() == [
        "2019-06-03: generation 1, samples 4,001,234, clicked 0.61%, ",
        "bought 0.02%, verdict accepted, seconds 1116.2, published",
        "2019-06-04: refused",
    ]


def test_a_value_without_spaces_is_folded_and_none_of_it_is_lost() -> None:
    value = "0123456789" * 30
    text = on_columns(60, table_of(("feature", "value"), ("vector", value)))
    assert re.sub(r"\D", "", text) == value


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_command_to_copy_goes_on_in_the_next_line_between_its_options(width: int) -> None:
    parts = ("ctr-samples preview", "--config 'configurations of the feed/samples.yaml'", "--date 2019-06-05")
    text = _to_copy(parts, width)
    assert max(map(len, text.splitlines())) <= width
    assert shlex.split(text.replace("\\\n", "")) == shlex.split(" ".join(parts))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_note_of_a_draft_is_wrapped_and_a_path_in_it_stays_whole(width: int) -> None:
    console, path = Console(width=width, file=io.StringIO()), "/a/long/path/" * 12
    _print_list(console, ["items: the table has no times; is it the same on all days of the log? See " + path])
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert " ".join(" ".join(lines).split()).endswith(f"on all days of the log? See {path}")
    assert all(len(line) <= width or path in line for line in lines)
