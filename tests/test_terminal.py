"""What reaches a terminal: data is never markup, never a control code, and never cut so that an id is lost."""

from __future__ import annotations

import errno
import io
import re
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.table import Table
from typer.testing import CliRunner

from ctr_samples.cli import app, outputs
from ctr_samples.cli.messages import errors_in_words
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.job.progress import RunProgress
from ctr_samples.records import read as reading
from ctr_samples.terminal import Terminal, visible

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
        with pytest.raises(typer.Exit), errors_in_words(console, debug):
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
    result = CliRunner().invoke(app, ["show", "somewhere", "-n", str(count)])
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
        with pytest.raises(typer.Exit) as caught, errors_in_words(console, debug=False):
            raise error
        assert caught.value.exit_code == 1

    said = written(fail)
    assert said.startswith(sentence)
    assert ("This error was not expected" in said) == isinstance(error, ValueError)


@pytest.mark.parametrize("debug", [False, True])
def test_the_exit_code_is_the_same_with_debug(debug: bool) -> None:
    def fail(console: Terminal) -> None:
        with pytest.raises(typer.Exit) as caught, errors_in_words(console, debug):
            raise InputError("found 3, expected 4")
        assert caught.value.exit_code == 3

    assert ("Traceback" in written(fail)) == debug
