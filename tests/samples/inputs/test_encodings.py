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
    "latin1": ["Informática"],
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


def csv_of(words: list[str], delimiter: str = ",") -> str:
    quoted = ['"' + word.replace('"', '""') + '"' for word in words]
    return "\n".join([f"n{delimiter}wörd", *[f"{n}{delimiter}{word}" for n, word in enumerate(quoted)]]) + "\n"


def test_text_of_a_file_is_that_of_its_encoding_split_by_any_delimiter(spark: SparkSession, tmp_path: Path) -> None:
    frames, expected = {}, {}

    def add(name: str, source: CsvSource | JsonSource, encoding: str, files: int = 1) -> None:
        word = "word" if isinstance(source, JsonSource) else "`wörd`"
        frames[name] = read(spark, source).frame, ["n", word, MALFORMED]
        expected[name] = sorted([(n, word, None) for n, word in enumerate(WORDS[encoding])] * files)

    for encoding, delimiter in (("UTF-8", ","), ("UTF-8", "¦"), ("windows-1252", "|"), ("ISO-8859-1", "¦")):
        path = tmp_path / f"{encoding}-{ord(delimiter)}.csv"
        path.write_bytes(csv_of(WORDS[encoding], delimiter).encode(encoding))
        add(f"CSV in {encoding} with {delimiter}", csv_source(path, encoding=encoding, delimiter=delimiter), encoding)
    for encoding in ("UTF-8", "latin1", "windows-1252", "UTF-16", "UTF-16LE", "UTF-32"):
        path = directory(tmp_path / encoding)
        text = csv_of(WORDS[encoding]).encode(encoding)
        (path / "one.csv").write_bytes(text)
        (path / "two.csv.gz").write_bytes(gzip.compress(text))
        add(f"two files of CSV in {encoding}", csv_source(path, encoding=encoding), encoding, 2)
    for encoding in ("GBK", "Shift_JIS"):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(csv_of(WORDS[encoding]).partition("\n")[2].encode(encoding))
        add(f"CSV in {encoding} without a header", csv_source(path, encoding=encoding, header=False), encoding)
    for encoding, words in WORDS.items():
        path = tmp_path / f"{encoding}.json"
        text = "".join(json.dumps({"n": n, "word": word}, ensure_ascii=False) + "\n\n" for n, word in enumerate(words))
        path.write_bytes(text.encode(encoding))
        add(f"JSON in {encoding}", json_source(path, encoding=encoding), encoding)
    assert {name: sorted(found) for name, found in rows_of(frames).items()} == expected


@pytest.mark.parametrize("header", [True, False])
def test_lines_of_a_csv_file_that_are_not_utf_8_are_malformed(
    spark: SparkSession, tmp_path: Path, header: bool
) -> None:
    lines = ["n,word"] * header + ["1,Informática", "2,caf\N{REPLACEMENT CHARACTER}"]
    latin = ["3,Informática", "4,ok", "five,é"]
    (tmp_path / "log.csv").write_bytes("\n".join([*lines, ""]).encode() + "\n".join(latin).encode("latin-1"))
    source = csv_source(tmp_path / "log.csv", schema="n INT, word STRING", header=header)
    found = read(spark, source)
    sound = found.frame.where(f"{MALFORMED} is null").select("n", "word").collect()
    assert sorted(tuple(row) for row in sound) == [(1, "Informática"), (2, "caf\N{REPLACEMENT CHARACTER}"), (4, "ok")]
    said = reasons(found, source, 5)
    assert said.startswith("2 are not UTF-8; is it Latin-1? Set `encoding: ISO-8859-1`, as in ")


def test_lines_of_a_json_file_that_are_not_utf_8_are_malformed(spark: SparkSession, tmp_path: Path) -> None:
    sound, latin = '{"n": 1, "word": "á\N{REPLACEMENT CHARACTER}"}\n', '{"n": 2, "word": "Informática"}\n'
    (tmp_path / "log.json").write_bytes(sound.encode() + latin.encode("latin-1"))
    source = json_source(tmp_path / "log.json")
    found = read(spark, source)
    assert [row.n for row in found.frame.where(f"{MALFORMED} is null").collect()] == [1]
    line = '{"n": 2, "word": "Inform\N{REPLACEMENT CHARACTER}tica"}'
    said = f"1 are not UTF-8; is it Latin-1? Set `encoding: ISO-8859-1`, as in '{line}'"
    assert reasons(found, source, 2) == said


@pytest.mark.parametrize("source_of", [csv_source, json_source])
def test_bytes_that_an_encoding_lacks_are_malformed(spark: SparkSession, tmp_path: Path, source_of: Any) -> None:
    path, keys = tmp_path / "log", {"encoding": "windows-1252", "schema": "n INT, word STRING"}
    if source_of is csv_source:
        path.write_bytes(b"n,word\n1,\x80\n2,\x81\n")
    else:
        path.write_bytes(b'{"n": 1, "word": "\x80"}\n{"n": 2, "word": "\x81"}\n')
    source = source_of(path, **keys)
    found = read(spark, source)
    assert [(row.n, row.word) for row in found.frame.where(f"{MALFORMED} is null").collect()] == [(1, "€")]
    assert reasons(found, source, 2).startswith("1 are not windows-1252; is `encoding` right?, as in ")


def test_a_first_line_that_is_not_utf_8_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(csv_of(["a"]).encode("latin-1"))
    with pytest.raises(
        InputError, match=r"the first line of .*log\.csv is not UTF-8; is it Latin-1\? Set `encoding: ISO"
    ):
        read(spark, csv_source(tmp_path / "log.csv"))


def test_columns_of_bytes_or_any_form_keep_the_bytes_and_text_of_a_csv_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "raw.csv").write_bytes("n,raw\n1,é\n".encode() + b"2,\xff\x80a\n")
    raw = read(spark, csv_source(tmp_path / "raw.csv", schema="n INT, raw BINARY")).frame
    (tmp_path / "any.csv").write_text("n,any\n1,é\n2,25\n3,x\n4,\n")
    anything = read(spark, csv_source(tmp_path / "any.csv", schema="n INT, any VARIANT")).frame
    found = rows_of(
        {
            "raw": (raw, ["hex(raw)", MALFORMED]),
            "any": (anything, ["n", "variant_get(any, '$', 'string')", "schema_of_variant(any)"]),
        }
    )
    assert found["raw"] == [("C3A9", None), ("FF8061", None)]
    assert found["any"] == [(1, "é", "STRING"), (2, "25", "STRING"), (3, "x", "STRING"), (4, None, "VOID")]


def test_an_encoding_that_nobody_knows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="found 'latin-15x', expected an encoding such as ISO-8859-1"):
        csv_source(tmp_path, encoding="latin-15x")
    (tmp_path / "log.json").write_text("{}\n")
    with pytest.raises(InputError, match=r"sources\.log\.encoding: found 'utf_8_sig', which Java does not know"):
        read(spark, json_source(tmp_path / "log.json", encoding="utf_8_sig"))
