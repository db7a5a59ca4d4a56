"""Text in other encodings than UTF-8, and lines whose bytes are no text in the encoding of their source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StringType, VariantType

from ctr_samples.config import TextSource
from ctr_samples.errors import InputError
from ctr_samples.sparksql.columns import quoted

_BYTES = "ISO-8859-1"
"""Encoding that maps each byte to the character of that number, and so loses none."""
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""What Java writes in place of bytes that are no character. Text in UTF-8 may contain it, too."""
_NEVER = "\uffff"
_TEXT = StringType()


def check_encoding(spark: SparkSession, where: str, source: TextSource) -> None:
    """Raise InputError if the JVM lacks the encoding of a source."""
    if not source.is_utf8 and not cast(Any, spark)._jvm.java.nio.charset.Charset.isSupported(source.encoding):
        raise InputError(
            f"{where}.encoding: found {source.encoding!r}, which Java does not know; expected one such as GBK."
        )


def encoding_options(source: TextSource) -> dict[str, str]:
    """Return the options with which Spark's CSV reader decodes lines. A file is read whole unless lines can be told by the
    bytes of ASCII. UTF-8 is read as bytes, for :func:`decoded`, since Spark would hide wrong ones.
    """
    return {
        "encoding": _BYTES if source.is_utf8 else source.encoding,
        "multiLine": str(not source.extends_ascii).lower(),
    }


def as_bytes(text: str, source: TextSource) -> str:
    """Return text as :func:`encoding_options` makes Spark see it."""
    return text.encode().decode(_BYTES) if source.is_utf8 else text


def line_reader(reader: DataFrameReader, source: TextSource) -> DataFrameReader:
    """Configure a reader that gives lines in the column ``value``, in UTF-8 with their bytes unchecked."""
    if source.is_utf8:
        return reader.format("text")
    return reader.format("csv").options(sep=_NEVER, quote="", escape="", **encoding_options(source))


def encoding_hint(source: TextSource) -> str:
    """Return the encoding that lines were expected in, and what else they may be, to end a sentence."""
    other = "is it Latin-1? Set `encoding: ISO-8859-1`" if source.is_utf8 else "is `encoding` right?"
    return f"{source.encoding}; {other}"


def is_undecoded(text: Column, source: TextSource) -> Column:
    """Whether text has bytes that are no character of the source's encoding."""
    return ~F.is_valid_utf8(text) if source.is_utf8 else text.contains(_UNKNOWN)


def decoded(rows: DataFrame, source: TextSource, names: Sequence[str], malformed: str) -> DataFrame:
    """Return the rows of Spark's CSV reader with the columns ``names`` decoded. A line with bytes that are no text becomes
    malformed; ``malformed`` then has the value with these bytes.
    """
    kinds = {name: rows.schema[name].dataType for name in (*names, malformed)}
    texts = {name: kind for name, kind in kinds.items() if isinstance(kind, StringType | BinaryType | VariantType)}
    if source.is_utf8:
        rows = rows.withColumns({name: _of_bytes(F.col(quoted(name)), kind) for name, kind in texts.items()})
    checked = [name for name in names if name in texts and not isinstance(texts[name], BinaryType)]
    cells = [F.col(quoted(name)).cast("string") for name in checked]
    wrong = [F.when(is_undecoded(cell, source), cell) for cell in cells]
    return rows.withColumn(malformed, F.coalesce(F.col(quoted(malformed)), *wrong))


def _of_bytes(text: Column, kind: DataType = _TEXT) -> Column:
    """Return the text behind bytes that were read as characters."""
    if isinstance(kind, VariantType):
        # Text in a VARIANT is the only value of a cell that is not in ASCII.
        inner = F.variant_get(text, "$", "string")
        return F.when(F.coalesce(_is_ascii(inner), F.lit(True)), text).otherwise(_of_bytes(inner).cast(kind))
    text = text.cast("string")
    found = F.when(_is_ascii(text), text).otherwise(F.encode(text, _BYTES).cast("string"))
    return found.cast("binary") if isinstance(kind, BinaryType) else found


def _is_ascii(text: Column) -> Column:
    return F.octet_length(text) == F.char_length(text)
