"""Text in the encoding that a source names, and bytes that are no text in it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from ctr_samples.config import CsvSource, JsonSource
from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.listing import SourceFrame
from ctr_samples.samples.inputs.malformed import reasons
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.sparksql.expressions import MALFORMED
from ctr_samples.sparksql.session import run_session
from tests.samples.inputs.reading import DAY, directory, rows_of

WORDS = {
    "UTF-8": ["Informática", "x\N{REPLACEMENT CHARACTER}y", "日本語", '😀, "so"', "plain"],
    "ISO-8859-1": ["Informática", "Ã©", "ÿþ", 'plain, "so"'],
    "windows-1252": ["Informática", '“quoted”, "so"', "5 €"],
    "GBK": ["信息学", "脱|颖", "乗\\", 'plain, "so"'],
    "Shift_JIS": ["日本語", "ソ表", "plain"],
    "UTF-16": ["Informática", 'ਅā, "so"', "😀", "日本語\u0a0a\u000bx"],
    "UTF-16LE": ["Informática", "ਅĀ"],
    "UTF-32": ["Informática"],
}


def csv_source(path: Path, **keys: Any) -> CsvSource:
    entry = {"format": "csv", "path": str(path), "schema": "n INT, `wörd` STRING", "header": True, **keys}
    return CsvSource.model_validate(entry)


def json_source(path: Path, **keys: Any) -> JsonSource:
    return JsonSource.model_validate({"format": "json", "path": str(path), "schema": "n INT, word STRING", **keys})


def read(spark: SparkSession, source: CsvSource | JsonSource) -> SourceFrame:
    return read_source(run_session(spark, "UTC"), "log", source, DAY)


CSV_FILES = [
    ("UTF-8", "¦", True),
    ("windows-1252", "|", True),
    ("ISO-8859-1", "¦", True),
    ("UTF-16", ",", True),
    ("GBK", ",", False),
    ("Shift_JIS", "|", False),
]
"""Encoding, delimiter, and whether there is a header."""
JSON_FILES = ["UTF-8", "windows-1252", "GBK", "UTF-16", "UTF-16LE", "UTF-32"]


@pytest.mark.thorough
def test_text_of_a_file_is_that_of_its_encoding_split_by_any_delimiter(spark: SparkSession, tmp_path: Path) -> None:
    frames, expected = {}, {}
    for encoding, delimiter, header in CSV_FILES:
        path, words = directory(tmp_path / f"csv in {encoding}"), WORDS[encoding]
        quoted = ['"' + word.replace('"', '""') + '"' for word in words]
        lines = [f"{n}{delimiter}{word}\n" for n, word in enumerate(quoted)]
        text = "".join([f"n{delimiter}wörd\n"] * header + lines).encode(encoding)
        (path / "one.csv").write_bytes(text)
        (path / "two.csv.gz").write_bytes(gzip.compress(text))
        source = csv_source(path, encoding=encoding, delimiter=delimiter, header=header)
        frames[path.name] = read(spark, source).frame, ["n", "`wörd`", MALFORMED]
        expected[path.name] = sorted([(n, word, None) for n, word in enumerate(words)] * 2)
    for encoding in JSON_FILES:
        path, words = tmp_path / f"{encoding}.json", WORDS[encoding]
        text = "".join(json.dumps({"n": n, "word": word}, ensure_ascii=False) + "\n\n" for n, word in enumerate(words))
        path.write_bytes(text.encode(encoding))
        frames[path.name] = read(spark, json_source(path, encoding=encoding)).frame, ["n", "word", MALFORMED]
        expected[path.name] = [(n, word, None) for n, word in enumerate(words)]
    assert {name: sorted(found) for name, found in rows_of(frames).items()} == expected


LATIN = '{"n": 2, "word": "Inform\N{REPLACEMENT CHARACTER}tica"}'
UNDECODED: dict[str, tuple[str, bytes, list[tuple[int, str]], int, str]] = {
    "csv": (
        "UTF-8",
        "n,word\n1,Informática\n2,caf\N{REPLACEMENT CHARACTER}\n".encode()
        + "3,Informática\n4,ok\nfive,é".encode("latin-1"),
        [(1, "Informática"), (2, "caf\N{REPLACEMENT CHARACTER}"), (4, "ok")],
        5,
        "2 are not UTF-8; is it Latin-1? Set `encoding: ISO-8859-1`, as in ",
    ),
    "json": (
        "UTF-8",
        '{"n": 1, "word": "á\N{REPLACEMENT CHARACTER}"}\n'.encode()
        + '{"n": 2, "word": "Informática"}\n'.encode("latin-1"),
        [(1, "á\N{REPLACEMENT CHARACTER}")],
        2,
        f"1 are not UTF-8; is it Latin-1? Set `encoding: ISO-8859-1`, as in '{LATIN}'",
    ),
    "csv of another encoding": (
        "windows-1252",
        b"n,word\n1,\x80\n2,\x81\n",
        [(1, "€")],
        2,
        "1 are not windows-1252; is `encoding` right?, as in ",
    ),
}
"""Encoding, bytes, the rows that are sound, how many lines there are, and how what is said of the others begins."""


def test_lines_with_bytes_that_are_no_text_in_their_encoding_are_malformed(spark: SparkSession, tmp_path: Path) -> None:
    frames = {}
    for name, (encoding, content, _, count, said) in UNDECODED.items():
        (tmp_path / name).write_bytes(content)
        source_of = csv_source if name.startswith("csv") else json_source
        source = source_of(tmp_path / name, encoding=encoding, schema="n INT, word STRING")
        found = read(spark, source)
        frames[name] = found.frame.where(f"{MALFORMED} IS NULL"), ["n", "word"]
        assert reasons(found, source, count).startswith(said), name
    assert rows_of(frames) == {name: sound for name, (_, _, sound, *_) in UNDECODED.items()}


def test_columns_of_bytes_or_any_form_keep_the_bytes_and_text_of_a_csv_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "raw.csv").write_bytes("n,raw\n1,é\n".encode() + b"2,\xff\x80a\n")
    raw = read(spark, csv_source(tmp_path / "raw.csv", schema="n INT, raw BINARY")).frame
    (tmp_path / "any.csv").write_text("n,any\n1,é\n2,25\n3,x\n4,\n")
    anything = read(spark, csv_source(tmp_path / "any.csv", schema="n INT, any VARIANT")).frame
    values = ["n", "variant_get(any, '$', 'string')", "schema_of_variant(any)"]
    assert rows_of({"raw": (raw, ["hex(raw)", MALFORMED]), "any": (anything, values)}) == {
        "raw": [("C3A9", None), ("FF8061", None)],
        "any": [(1, "é", "STRING"), (2, "25", "STRING"), (3, "x", "STRING"), (4, None, "VOID")],
    }


def test_an_encoding_that_nobody_knows_and_a_first_line_in_another_one_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ValidationError, match="found 'latin-15x', expected an encoding such as ISO-8859-1"):
        csv_source(tmp_path, encoding="latin-15x")
    (tmp_path / "log").write_bytes("n,wörd\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"sources\.log\.encoding: found 'utf_8_sig', which Java does not know"):
        read(spark, json_source(tmp_path / "log", encoding="utf_8_sig"))
    with pytest.raises(InputError, match=r"the first line of .*log is not UTF-8; is it Latin-1\? Set `encoding: ISO"):
        read(spark, csv_source(tmp_path / "log"))
