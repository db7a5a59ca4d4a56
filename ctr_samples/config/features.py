"""pydantic models of features: what a sample has, and what is fitted on training days for it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ctr_samples.config.base import Expression, Model, Name, Scalar

DatePart = Literal["hour", "weekday", "day", "month", "hour_of_week", "weekend"]

PARTS: dict[DatePart, int] = {"hour": 24, "weekday": 7, "day": 32, "month": 13, "hour_of_week": 168, "weekend": 2}
"""How many ids a part of a date has, counted from 0: weekday 0 is Monday, and day and month begin at 1."""

MOST_MULTI_HOT = 4096
MOST_BOUNDARIES = 1000

_GREATEST_FLOAT32 = 3.4028234663852886e38


class Vocabulary(Model):
    """Ids for tokens, fitted by `ctr-samples fit`: 0 is padding, 1 a missing value, then the OOV buckets, then the tokens.

    A token keeps its id for ever; new ones are added behind. Features that name one vocabulary share its ids.
    """

    capacity: int = Field(
        ge=1, le=100_000_000, description="How many tokens there is room for: the embedding table never grows."
    )
    min_count: int = Field(1, ge=1, description="How often a token must occur in the days that are fitted.")
    oov_buckets: int = Field(1, ge=1, le=1_000_000, description="Tokens without an id share this many, by a hash.")

    @property
    def buckets(self) -> int:
        """Number of ids, thus rows of an embedding table."""
        return 2 + self.oov_buckets + self.capacity


class Fitted(Model):
    """Where vocabularies, moments and quantiles are kept. `ctr-samples fit` makes the next version from training days."""

    path: str = Field(min_length=1, description="A directory, or hdfs://, s3://, gs://, az:// and a prefix.")
    days: int = Field(
        1, ge=1, le=366, description="How many days are looked at, the one of `--through` being the last."
    )


class Feature(Model):
    """One feature of a sample, on the wire one tf.Feature.

    The value comes from `from`, `expr` or `cross`; `at` and `date_part` take a part of it; `top_k` shortens a list or map;
    `clip`, `log1p` and `scale` change numbers; `boundaries`, `quantiles`, `vocabulary` and `hash_buckets` make ids. These
    apply in this order, to each item of a list.
    """

    from_: str | None = Field(
        None, alias="from", description="`<view>.<column>` or `impression.<column>`, as in `` user.`age:token` ``."
    )
    expr: Expression | None = Field(None, description="Instead: an SQL expression over `<view>.<column>`s.")
    cross: tuple[Name, ...] | None = Field(
        None, description="Instead: other features with one integer or text each, hashed together; with `hash_buckets`."
    )
    dtype: Literal["int64", "float32", "string", "bytes"] = Field(
        description="The type in the record; `bytes` is binary, such as an image."
    )
    shape: tuple[Annotated[int, Field(ge=1, le=2**20)], ...] = Field(
        (),
        description="`[]`: one value; `[n]`: n values; `[m, n]`: a tensor, given as nested arrays or as one of m * n.",
    )
    default: Scalar | None = Field(
        None, description="For missing values and to pad; 0 or an empty string if not given."
    )
    nulls: Literal["default", "omit", "fail"] = Field(
        "default", description="What a missing value becomes: the default, no feature at all, or the end of the run."
    )
    fill: Scalar | None = Field(None, description="For a null inside a list, which otherwise ends the run.")
    ragged: bool = Field(False, description="A list of any length instead of `shape`; a missing one is empty.")
    pad: bool = Field(
        False, description="Cut a list to its `shape`, or pad it at the end; otherwise it must fit exactly."
    )
    encoding: Literal["list", "tensor", "raw"] = Field(
        "list", description="`tensor`: a serialized TensorProto; `raw`: little-endian bytes; both as one bytes value."
    )
    at: Expression | None = Field(None, description="Of a map: the value at this key, an SQL expression.")
    date_part: DatePart | None = Field(
        None,
        description="Of a time, in the zone of the configuration: `weekday` 0 is Monday, `hour_of_week` 0 to 167.",
    )
    top_k: int | None = Field(
        None,
        ge=1,
        le=2**16,
        description="Of an array or of a map: the entries with the k greatest numbers, greatest first.",
    )
    order: Literal["greatest", "smallest"] = Field(
        "greatest", description="With `top_k`: `smallest` takes the least numbers, least first, as the old system did."
    )
    part: Literal["values", "keys"] = Field(
        "values", description="Of a map: its values, or its keys in the order of their values; both are aligned."
    )
    clip: tuple[float, float] | None = Field(None, description="The least and greatest number, such as [0, 100].")
    log1p: bool = Field(False, description="The logarithm of 1 + x; x must be greater than -1, so clip it at 0 or so.")
    scale: Literal["standardise", "min_max"] | None = Field(
        None,
        description="By fitted moments: (x - mean) / standard deviation, or (x - min) / (max - min); each place of a vector "
        "by its own.",
    )
    boundaries: tuple[float, ...] | None = Field(
        None, description="To an id: 0 for a missing value, then 1 below the first boundary, and so on."
    )
    quantiles: int | None = Field(
        None,
        ge=2,
        le=1000,
        description="To an id as with `boundaries`, by this many buckets fitted to be equally full.",
    )
    hash_buckets: int | None = Field(
        None,
        ge=2,
        le=2**62,
        description="Hash the value to an id below this number; in a list 0 is kept for padding.",
    )
    salt: str | None = Field(
        None,
        description="With `hash_buckets`: single values with one salt share ids, and so do lists; default: the feature's name.",
    )
    vocabulary: Name | None = Field(None, description="A name under `vocabularies`: the id of the token.")
    multi_hot: bool = Field(
        False,
        description="Of ids: a vector with 1 at each, from 0 on; as `float32` or `int64`, for small numbers of ids.",
    )
    computed: Literal["sample", "model"] = Field(
        "sample",
        description="`model`: the record holds the number or token as it is, and the contract says what the model has to do "
        "with it: `clip`, `log1p`, `scale`, `boundaries`, `quantiles`, `vocabulary`.",
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if sum(source is not None for source in (self.from_, self.expr, self.cross)) != 1:
            raise ValueError("give exactly one of `from`, `expr` and `cross`")
        for problem in (
            self._cross(),
            self._numbers(),
            self._model(),
            self._ids(),
            self._lists(),
            self._part_of_a_time(),
            self._form(),
            self._values(),
        ):
            if problem:
                raise ValueError(problem)
        return self

    def _cross(self) -> str | None:
        if self.cross is None:
            return None
        if self.hash_buckets is None or len(self.cross) < 2:
            return "`cross` takes two or more features and needs `hash_buckets`"
        others = (self.at, self.date_part, self.top_k, self.shape, self.ragged, self.fill, self.multi_hot)
        return "`cross` makes one id: remove what is for lists, maps and times" if any(others) else None

    def _numbers(self) -> str | None:
        if self.boundaries is not None and self.quantiles is not None:
            return "give `boundaries` or `quantiles`, not both"
        if self.boundaries is not None and not _ascends(self.boundaries):
            return f"found `boundaries: {list(self.boundaries)}`, expected finite numbers that ascend"
        if len(self.boundaries or ()) > MOST_BOUNDARIES:
            return f"found {len(self.boundaries or ())} `boundaries`, expected at most {MOST_BOUNDARIES}"
        if self.clip is not None and not _ascends(self.clip):
            return f"found `clip: {list(self.clip)}`, expected two finite numbers, the lesser one first"
        if self.bucketises and self.scale:
            return "`scale` makes numbers and `boundaries` and `quantiles` make ids: give one of them"
        on_wire = "float32" if self.computed == "model" or not self.bucketises else "int64"
        if (self.bucketises or self.clip or self.log1p or self.scale) and self.dtype != on_wire:
            made = "an id" if on_wire == "int64" else "a number"
            return f"this makes {made}: set `dtype: {on_wire}`"
        return None

    def _ids(self) -> str | None:
        if self.salt is not None and self.hash_buckets is None:
            return "`salt` is for `hash_buckets`"
        makers = [
            key for key in ("hash_buckets", "vocabulary", "boundaries", "quantiles") if getattr(self, key) is not None
        ]
        if len(makers) > 1:
            return f"give `{makers[0]}` or `{makers[1]}`, not both"
        if makers and (self.default is not None or self.fill is not None):
            return f"with `{makers[0]}` a missing value has an id of its own; remove `default` and `fill`"
        if makers and makers[0] in ("hash_buckets", "vocabulary") and (self.clip or self.log1p or self.scale):
            return f"`{makers[0]}` makes ids and takes no `clip`, `log1p` or `scale`"
        if self.multi_hot:
            return self._multi_hot()
        if not makers:
            return None
        token = self.computed == "model" and self.vocabulary is not None
        wanted = "string" if token else "float32" if self.computed == "model" else "int64"
        if self.dtype != wanted:
            return f"`{makers[0]}` makes ids: set `dtype: {wanted}`"
        if len(self.shape) > 1 or self.encoding != "list":
            return "ids are one value or a list: give `shape` one number at most, and no `encoding`"
        return None

    def _multi_hot(self) -> str | None:
        if self.hash_buckets is None and self.vocabulary is None:
            return "`multi_hot` needs the ids of `hash_buckets` or a `vocabulary`"
        if self.dtype not in ("float32", "int64") or self.shape or self.ragged or self.computed == "model":
            return "`multi_hot` makes a vector as long as there are ids: set `dtype: float32` or `int64` and no `shape`"
        if (self.hash_buckets or 0) > MOST_MULTI_HOT:
            return f"`multi_hot` is for at most {MOST_MULTI_HOT} ids; store the ids and let the model embed them"
        return None

    def _lists(self) -> str | None:
        if self.fill is not None and not self.is_list:
            return "`fill` is for lists; `default` is what a missing value becomes"
        if self.top_k is not None and self.part == "values" and self.dtype not in ("int64", "float32"):
            return "`top_k` takes the greatest numbers: set `dtype: int64` or `dtype: float32`"
        listed = self.ragged or self.multi_hot
        if self.top_k is not None and not listed and self.shape != (self.top_k,):
            return f"`top_k: {self.top_k}` needs `shape: [{self.top_k}]`, or `ragged: true`"
        if self.order == "smallest" and self.top_k is None:
            return "`order` is for `top_k`"
        if self.ragged and (self.shape or self.default is not None or self.pad):
            return "`ragged` takes no `shape`, `default` or `pad`: the list has the length that it has"
        if self.pad and len(self.shape) != 1:
            return "`pad` needs a `shape` with one number"
        return None

    def _part_of_a_time(self) -> str | None:
        if self.date_part is not None and (self.at or self.top_k or self.is_list):
            return "`date_part` takes a part of one time: remove what is for lists and maps"
        ids = PARTS[self.date_part] if self.date_part and self.dtype == "int64" else None
        if ids is not None and isinstance(self.default, int) and not 0 <= self.default < ids:
            return f"found `default: {self.default}`, expected 0 to {ids - 1} for `date_part: {self.date_part}`"
        return None

    def _model(self) -> str | None:
        if self.computed == "sample":
            return None
        if self.hash_buckets is not None:
            return "`hash_buckets` is computed in the sample: remove `computed: model`"
        steps = (self.clip, self.log1p, self.scale, self.boundaries, self.quantiles, self.vocabulary)
        if not any(steps):
            return "`computed: model` leaves `clip`, `log1p`, `scale`, `boundaries`, `quantiles` or `vocabulary` to the model"
        if self.vocabulary is not None and self.shape:
            return "a model cannot tell padding from a missing token: set `ragged: true` instead of `shape`"
        return None

    def _form(self) -> str | None:
        if self.encoding != "list" and (self.dtype not in ("int64", "float32") or not self.shape):
            return "`encoding` is for tensors of numbers: set `shape` and `dtype: int64` or `dtype: float32`"
        if len(self.shape) > 1 and (self.top_k or self.pad or self.scale):
            return "a shape has at most one dimension here, such as `shape: [100]`"
        return None

    def _values(self) -> str | None:
        for key in ("default", "fill"):
            value = getattr(self, key)
            if value is not None and not _is_of(value, self.dtype):
                expected = {"float32": "a finite number of 32 bits", "int64": "a whole number of 64 bits"}
                wanted = expected.get(self.dtype, "text")
                return f"found `{key}: {value!r}`, expected {wanted} for `dtype: {self.dtype}`"
        if self.default is not None and self.nulls != "default":
            return f"`nulls: {self.nulls}` writes no `default`; remove one"
        return None

    @property
    def makes_ids(self) -> bool:
        """Whether the value becomes an id."""
        makers = (self.hash_buckets, self.vocabulary, self.boundaries, self.quantiles)
        return any(maker is not None for maker in makers)

    @property
    def bucketises(self) -> bool:
        """Whether numbers become ids."""
        return self.boundaries is not None or self.quantiles is not None

    @property
    def is_list(self) -> bool:
        """Whether a sample has several values."""
        return bool(self.ragged or self.shape)

    @property
    def default_value(self) -> Scalar:
        """What a missing value becomes."""
        if self.default is not None:
            return self.default
        if self.makes_ids and self.dtype == "float32":
            return math.nan  # what the model's boundaries take for missing
        zeros: dict[str, Scalar] = {"int64": 0, "float32": 0.0}
        return zeros.get(self.dtype, "")

    @property
    def is_fitted(self) -> bool:
        """Whether it needs something that only training days tell."""
        return bool(self.vocabulary or self.scale or self.quantiles)


def _ascends(numbers: tuple[float, ...]) -> bool:
    finite = all(math.isfinite(n) for n in numbers)
    return finite and bool(numbers) and all(a < b for a, b in pairwise(numbers))


def _is_of(value: Scalar, dtype: str) -> bool:
    """Whether the record can hold the value as it is written."""
    if isinstance(value, str) or dtype in ("string", "bytes"):
        return isinstance(value, str) and dtype in ("string", "bytes")
    if dtype == "int64":
        return isinstance(value, int) and -(2**63) <= value < 2**63
    return abs(value) <= _GREATEST_FLOAT32
