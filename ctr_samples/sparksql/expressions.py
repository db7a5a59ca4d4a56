"""SQL expressions in the configuration: parsed by Spark, checked against an allow-list, resolved against a source.

Expressions are code: ``reflect`` can call any Java method, and a subquery can read any file. Only the node types and
functions below are allowed, all of which are deterministic functions of the row. Expressions and what they return have limits
of size, since a value of two billion characters crashes the JVM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException, PySparkValueError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ctr_samples.config.masking import LEFT_OUT, written
from ctr_samples.config.problems import end_sentence, nearest
from ctr_samples.errors import ExpressionError, InputError
from ctr_samples.sparksql.lambdas import taken_out
from ctr_samples.sparksql.moments import check_literal, jvm_class, without_today
from ctr_samples.sparksql.session import need_classic

MALFORMED = "_malformed_line"
"""Column of JSON and CSV sources with the text of lines that do not match the schema, else null."""
IS_REPEAT = "_repeated_line"
"""Column of sources with `unique`: whether a row repeats another one."""
CONFIGURATION = "the configuration"
"""Text that replaces the call site of an operation in Spark errors."""
_ORIGIN = "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin"
PARSED_TIME = "_time of "
MATCH = "_match of "
"""Prefixes of the names of columns with parsed times and with conditions, followed by the expression."""
PREPARED = (PARSED_TIME, MATCH)

_NODES = frozenset(
    "Add Alias And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Concat CreateNamedStruct Divide EqualNullSafe "
    "EqualTo GreaterThan GreaterThanOrEqual In InSet IntegralDivide IsNotNull IsNull LambdaFunction LessThan LessThanOrEqual "
    "Like LikeAll LikeAny Literal Multiply Not NotLikeAll NotLikeAny Or RLike Remainder SemiStructuredExtract StringLocate "
    "StringTrim StringTrimLeft StringTrimRight Substring Subtract UnaryMinus UnaryPositive UnresolvedAttribute "
    "UnresolvedExtractValue UnresolvedFunction UnresolvedNamedLambdaVariable".split()
)

_FUNCTIONS = frozenset(
    "abs aggregate array array_append array_compact array_contains array_distinct array_join array_max array_min "
    "array_position array_prepend array_remove array_repeat array_size array_sort array_union arrays_zip ascii between bigint "
    "bin binary boolean cardinality cast cbrt ceil ceiling char_length coalesce concat concat_ws contains cos date date_add "
    "date_diff date_format date_part date_sub date_trunc datediff day dayofmonth dayofweek dayofyear decimal degrees double "
    "element_at elt endswith exists exp expm1 extract factorial filter find_in_set flatten float floor forall format_string "
    "from_json from_unixtime from_utc_timestamp get get_json_object greatest hash hex hour if ifnull initcap instr int "
    "is_variant_null isnan isnotnull isnull json_array_length lcase least left length levenshtein ln locate log log10 log1p "
    "log2 lower lpad ltrim make_date make_timestamp map map_concat map_contains_key map_entries map_filter map_from_arrays "
    "map_from_entries map_keys map_values md5 minute mod month named_struct nanvl negative nullif nvl nvl2 parse_json "
    "parse_url pmod position pow power quarter radians regexp regexp_count regexp_extract regexp_extract_all regexp_like "
    "regexp_replace replace reverse right rint round rpad rtrim second sequence sha1 sha2 shiftleft shiftright sign signum "
    "sin size slice smallint sort_array split split_part sqrt startswith str_to_map string struct substr substring "
    "substring_index tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_date to_json "
    "to_timestamp to_utc_timestamp to_variant_object transform transform_keys transform_values translate trim trunc try_add "
    "try_cast try_divide try_element_at try_multiply try_parse_json try_subtract try_to_date try_to_number try_to_timestamp "
    "try_variant_get ucase unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp upper variant_get weekday "
    "weekofyear width_bucket xxhash64 year zip_with".split()
)

_OF_VARIANTS = frozenset({"variant_get", "try_variant_get"})
"""Functions that convert part of a VARIANT to a type of their choice, without a cast."""


def compile_expression(frame: DataFrame, text: str, where: str) -> Column:
    """Return the column of :func:`typed_expression`, without its type."""
    return typed_expression(frame, text, where)[0]


def columns_of_data(frame: DataFrame) -> list[str]:
    """Return the columns that come from the data rather than from this package."""
    return [name for name in frame.columns if name not in (MALFORMED, IS_REPEAT) and not name.startswith(PREPARED)]


def typed_expression(frame: DataFrame, text: str, where: str) -> tuple[Column, DataType]:
    """Return the expression as a column of ``frame``, and its type. ``where`` is its configuration key, for errors.

    Runs on the driver, without a Spark job. Raises ExpressionError for invalid or disallowed SQL, and InputError for a
    missing column or a type mismatch.
    """
    with _told_as_written(text, where):
        return _typed(frame, text, where)


def _typed(frame: DataFrame, text: str, where: str) -> tuple[Column, DataType]:
    parsed = _parsed(frame.sparkSession, text, where)
    columns = {name.lower() for name in frame.columns}
    for root in sorted({path[0].lower() for path in parsed.paths} - columns):
        what = f"{where}: there is no column {root!r}{nearest(root, columns_of_data(frame))}"
        raise InputError(end_sentence(what))
    column = F.expr(parsed.fast)
    kind = type_at(frame.schema, parsed.paths[0]) if parsed.is_column else None
    if kind is not None:
        return column, kind
    selected = _selected(frame, column, where)
    kind = selected.schema["value"].dataType
    dated = without_today(frame, column, selected, where, variants=bool(_OF_VARIANTS & parsed.functions))
    return _named(frame.sparkSession, dated, kind, where), kind


def _named(spark: SparkSession, column: Column, kind: DataType, where: str) -> Column:
    """Wrap a column so that runtime errors on values name ``where``.

    A cast records its call site, also for expressions below it that were parsed from text, unless another cast to the
    same type follows. Spark's optimizer removes a cast to the existing type of a column.
    """
    origin = jvm_class(spark, _ORIGIN)
    origin.set(where, CONFIGURATION)
    try:
        return column.cast(kind)
    finally:
        origin.clear()


def as_type(column: Column, kind: DataType, wanted: DataType) -> Column:
    """Cast a column of type ``kind`` to ``wanted``, unless they are equal."""
    return column if kind == wanted else column.cast(wanted)


def type_at(schema: StructType, path: Sequence[str]) -> DataType | None:
    """Return the type of a column or struct field. None if only Spark can resolve it, as in a list of structs."""
    kind: DataType = schema
    for part in path:
        fields = [f for f in kind.fields if f.name.lower() == part.lower()] if isinstance(kind, StructType) else []
        if len(fields) != 1:
            return None
        kind = fields[0].dataType
    return kind


def _selected(frame: DataFrame, column: Column, where: str) -> DataFrame:
    """Select the expression as the only column, ``value``. Only analyzes the plan, without a Spark job.

    Raises InputError for a type mismatch.
    """
    try:
        selected = frame.select(column.alias("value"))
        selected.schema  # noqa: B018  a type may be unknown to PySpark
    except (AnalysisException, PySparkValueError) as error:
        raise InputError(f"{where}: {first_sentence(error)}") from None
    except Py4JJavaError as error:
        raise _not_enabled(error, where) from None
    return selected


def _not_enabled(error: Py4JJavaError, where: str) -> Exception:
    """Convert a Spark error unknown to PySpark: to ExpressionError if a feature is disabled, else unchanged."""
    off = re.search(r"\[FEATURE_NOT_ENABLED\] (.+?) SQLSTATE", str(error))
    return ExpressionError(f"{where}: {off[1]}") if off else error


def referenced_columns(spark: SparkSession, text: str, where: str) -> list[str]:
    """Return the top-level columns in an expression, in order. Raise ExpressionError if it is not allowed."""
    return list(dict.fromkeys(parts[0] for parts in referenced_paths(spark, text, where)))


def referenced_paths(spark: SparkSession, text: str, where: str) -> list[tuple[str, ...]]:
    """Return each name in an expression as a tuple: ``log1p(item.clicks)`` -> ``[("item", "clicks")]``."""
    with _told_as_written(text, where):
        return list(_parsed(spark, text, where).paths)


@contextmanager
def _told_as_written(text: str, where: str) -> Iterator[None]:
    """Hide Spark's message for expressions with ``${NAME}``, since it may contain the value."""
    try:
        yield
    except (ExpressionError, InputError) as error:
        if written(text) is None:
            raise
        what = "is not allowed here or is no SQL" if isinstance(error, ExpressionError) else "does not fit its source"
        raise type(error)(f"{where}: {shown(text)} {what}; {LEFT_OUT}.") from None


@dataclass(frozen=True, slots=True)
class _Parsed:
    """An allowed expression: the names in it, whether it is a plain column name, the functions it calls, and text with the
    same values that Spark evaluates faster.
    """

    paths: tuple[tuple[str, ...], ...]
    is_column: bool
    functions: frozenset[str]
    fast: str


_PARSED: dict[str, _Parsed] = {}
"""Cache of parsed expressions in this process, by text, since a run and later days reuse most expressions."""
_PLACES: dict[str, str] = {}
"""Configuration key of each expression, by text. The last key wins if several keys share a text."""


def left_out_of(where: str | None) -> str | None:
    """Return what replaces a value error if the expression at ``where``, or any if None, has ``${NAME}``. Else None."""
    hidden = any(written(text) is not None for text, place in _PLACES.items() if where in (None, place))
    return LEFT_OUT if hidden else None


def place_of_expression(text: str) -> str | None:
    """Return the configuration key of an expression text, as contained in some Spark errors."""
    return _PLACES.get(text)


def _parsed(spark: SparkSession, text: str, where: str) -> _Parsed:
    _PLACES[text] = where
    if text not in _PARSED:
        _PARSED[text] = _checked(_parse(spark, text, where), text, where)
    _PLACES[_PARSED[text].fast] = where
    return _PARSED[text]


def _checked(root: Any, text: str, where: str) -> _Parsed:
    """Return the names in a parsed expression. Raise ExpressionError unless all nodes are allowed."""
    paths, kinds, functions = [], [], set[str]()
    sizes = Sizes(where)
    for node, parameters in _walk(root, where):
        kind = node.getClass().getSimpleName()
        kinds.append(kind)
        if kind not in _NODES:
            raise ExpressionError(f"{where}: {shown(text)} uses {kind}, which is not allowed in a configuration.")
        if kind == "Literal":
            check_literal(node, where)
        if kind == "UnresolvedFunction":
            name = ".".join(_parts(node)).lower()
            if name not in _FUNCTIONS:
                raise ExpressionError(end_sentence(f"{where}: the function {name} is not allowed{_near(name)}"))
            sizes.check(name, node)
            functions.add(name)
            if name == "unix_timestamp" and node.children().isEmpty():
                raise ExpressionError(
                    f"{where}: unix_timestamp() without an argument is the current time, which is not allowed."
                )
        # Spark's parser treats every name in a lambda body as a parameter.
        if (
            kind in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable")
            and _parts(node)[0].lower() not in parameters
        ):
            paths.append(tuple(_parts(node)))
    return _Parsed(tuple(paths), kinds == ["UnresolvedAttribute"], frozenset(functions), taken_out(root, text))


def _near(name: str) -> str:
    hint = nearest(name, _FUNCTIONS)
    return hint if "did you mean" in hint else ""


def _parse(spark: SparkSession, text: str, where: str) -> Any:
    check_text(text, where)
    need_classic(spark, "A join or an expression of ctr-samples")
    try:
        # The session's own parser shows exactly what Spark would run.
        return cast(Any, spark)._jsparkSession.sessionState().sqlParser().parseExpression(text)
    except ParseException as error:
        if error.getCondition() == "FAILED_TO_PARSE_TOO_COMPLEX":
            raise too_deep(where) from None
        raise ExpressionError(
            f"{where}: {shown(text)} is not a Spark SQL expression ({first_sentence(error)})"
        ) from None
    except Py4JJavaError as error:
        if "StackOverflowError" in str(error):
            raise too_deep(where) from None
        raise _not_enabled(error, where) from None


def _walk(
    node: Any, where: str, parameters: frozenset[str] = frozenset(), depth: int = 1
) -> Iterator[tuple[Any, frozenset[str]]]:
    """Yield a node and its descendants, each with the parameters of its enclosing lambdas."""
    if depth > DEEPEST:
        raise too_deep(where)
    if node.getClass().getSimpleName() == "LambdaFunction":
        names = node.arguments()
        parameters |= {_parts(names.apply(i))[0].lower() for i in range(names.size())}
    yield node, parameters
    children = node.children().iterator()
    while children.hasNext():
        yield from _walk(children.next(), where, parameters, depth + 1)


def _parts(node: Any) -> list[str]:
    parts = node.nameParts()
    return [parts.apply(i) for i in range(parts.size())]


def first_sentence(error: PySparkException) -> str:
    """Return the first line of Spark's message, without error class and SQL state."""
    line = str(error).strip().splitlines()[0]
    line = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", line)
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", line).rstrip(";. ") + "."


LONGEST_TEXT = 20_000
MOST_BRACKETS = 50
DEEPEST = 250
"""Nesting limit. Spark's parser and planner are recursive: deeper nesting overflows the stack or takes hours."""

LARGEST = 2**20
"""Maximum number of characters or items that an expression may produce. Sizes of nested calls multiply."""

_LONGEST_SHOWN = 200
_MOST_DIGITS = 308
_SIZED = {"lpad": 1, "rpad": 1, "array_repeat": 1}
_ROUNDING = {"round", "ceil", "ceiling", "floor"}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL)
_WIDTH = re.compile(r"%(?:\d+\$)?[-#+ 0,(<]*(\d+)?(?:\.(\d+))?")


def check_text(text: str, where: str) -> None:
    """Raise ExpressionError for text that is too long or has too deeply nested brackets."""
    if len(text) > LONGEST_TEXT:
        raise ExpressionError(
            f"{where} has {len(text):,} characters, expected at most {LONGEST_TEXT:,}; compute a part of it "
            "as a column of the source."
        )
    depth = deepest = 0
    for bracket in re.findall(r"[()\[\]]", _QUOTED.sub("", text)):
        depth += 1 if bracket in "([" else -1
        deepest = max(deepest, depth)
    if deepest > MOST_BRACKETS:
        raise ExpressionError(f"{where}: brackets are nested {deepest:,} deep, expected at most {MOST_BRACKETS}.")


def shown(text: str) -> str:
    """Quote an expression for an error message, as written in the file, and truncated."""
    text = written(text) or text
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


def too_deep(where: str) -> ExpressionError:
    """Create the error for an expression with too deeply nested operators."""
    return ExpressionError(
        f"{where} is nested more than {DEEPEST} levels deep; split it, or write it with fewer operators."
    )


class Sizes:
    """The product of the value sizes that the functions of one expression may return."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._product = 1

    def check(self, name: str, node: Any) -> None:
        """Raise ExpressionError if the value of a call is too large, or its size depends on the data."""
        arguments = [node.children().apply(i) for i in range(node.children().size())]
        if name in _SIZED:
            for argument in arguments[_SIZED[name] : _SIZED[name] + 1]:
                self._count(name, _integer(argument))
        elif name == "sequence" and len(arguments) >= 2:
            numbers = [number for number in map(_integer, arguments) if number is not None]
            step = abs(numbers[2]) if len(numbers) > 2 else 1
            known = len(numbers) == len(arguments)
            self._count(name, abs(numbers[1] - numbers[0]) // max(step, 1) + 1 if known else None)
        elif name == "format_string" and arguments:
            form = _literal(arguments[0])
            self._count(name, _width(str(form)) if form is not None else None)
        elif name in _ROUNDING:
            for argument in arguments[1:2]:
                digits = _integer(argument)
                if digits is None or abs(digits) > _MOST_DIGITS:
                    raise ExpressionError(
                        f"{self._where}: {name} to {_found(digits)} digits; expected a number of at most {_MOST_DIGITS}."
                    )

    def _count(self, name: str, size: int | None) -> None:
        self._product *= max(size or 1, 1)
        if size is None:
            raise ExpressionError(
                f"{self._where}: the size of what {name} returns depends on the data; expected a literal number."
            )
        if self._product > LARGEST:
            raise ExpressionError(
                f"{self._where}: {name} returns a value of {self._product:,} characters or items; expected at most {LARGEST:,}."
            )


def _found(digits: int | None) -> str:
    return "a computed number of" if digits is None else f"{digits:,}"


def _width(form: str) -> int:
    return max((int(part) for sizes in _WIDTH.findall(form) for part in sizes if part), default=1)


def _integer(node: Any) -> int | None:
    kind = node.getClass().getSimpleName()
    if kind in ("UnaryMinus", "UnaryPositive"):
        inner = _integer(node.children().apply(0))
        return -inner if inner is not None and kind == "UnaryMinus" else inner
    value = _literal(node)
    return value if isinstance(value, int) and node.dataType().simpleString() in _INTEGERS else None


def _literal(node: Any) -> Any:
    """Return the value of a literal number or text, or None for any other node."""
    if node.getClass().getSimpleName() != "Literal":
        return None
    value = node.value()
    return (
        value
        if isinstance(value, int) or value is None
        else value.toString()
        if hasattr(value, "toString")
        else str(value)
    )
