"""Features of a sample, and the location of vocabularies and other fitted state."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ctr_samples.config.base import Expression, Model, Name, Scalar
from ctr_samples.feature_rules import FeatureRules

DatePart = Literal["hour", "weekday", "day", "month", "hour_of_week", "weekend"]


_Path = Annotated[str, Field(min_length=1)]


class Lookup(Model):
    """A value, or several, that a map of one source has at the keys of another one."""

    map: _Path = Field(description="The map, or a list of structs with a key and a value each: `<view>.<column>`.")
    keys: _Path | None = Field(
        None, description="The key, or a list of keys: `<view>.<column>`. Needed unless there is `under`."
    )
    under: _Path | None = Field(
        None,
        description="What the keys lie under, such as a category: the key of a map of maps, or what stands before the "
        "`separator` in the keys of a map. Without `keys`, the value is the map of all entries under it.",
    )
    separator: str = Field(":", min_length=1, description="What stands between `under` and the rest of a key.")
    reduce: Literal["sum", "mean", "max", "min", "count"] | None = Field(
        None,
        description="One number from the values at all keys; without it, a list of keys gives a list of values in their "
        "order.",
    )


class Overlap(Model):
    """How many values two lists have in common. A value counts once, and a single value is a list of one."""

    of: _Path = Field(description="One list: `<view>.<column>`.")
    with_: _Path = Field(alias="with", description="The other one.")
    as_: Literal["count", "any", "share_of", "share_with"] = Field(
        "count",
        alias="as",
        description="Their number, whether there are any as 1 or 0, or their share of the values of `of` or of `with`.",
    )


class Dot(Model):
    """The product of two vectors of equal length."""

    of: _Path = Field(description="One vector: `<view>.<column>`.")
    with_: _Path = Field(alias="with", description="The other one.")
    as_: Literal["dot", "cosine"] = Field("dot", alias="as", description="The dot product, or the cosine.")


class Feature(FeatureRules, Model):
    """One feature of a sample, on the wire one tf.Feature.

    The value comes from `from`, `expr`, `cross`, `lookup`, `overlap` or `dot`; `at` and `date_part` take a part of it;
    `top_k` shortens a list or map; `clip`, `log1p` and `scale` change numbers; `boundaries`, `quantiles`, `vocabulary` and
    `hash_buckets` make ids. These apply in this order, to each item of a list.
    """

    from_: str | None = Field(
        None, alias="from", description="`<view>.<column>` or `impression.<column>`, as in `` user.`age:token` ``."
    )
    expr: Expression | None = Field(None, description="Instead: an expression over `<view>.<column>`s.")
    cross: tuple[Name, ...] | None = Field(
        None,
        description="Instead: other features, each one integer or text, hashed together; needs `hash_buckets`.",
    )
    lookup: Lookup | None = Field(None, description="Instead: what a map has at the keys of another source.")
    overlap: Overlap | None = Field(None, description="Instead: how far two lists have the same values.")
    dot: Dot | None = Field(None, description="Instead: the product of two vectors.")
    dtype: Literal["int64", "float32", "string", "bytes"] = Field(
        description="Its type in the record; `bytes` is binary, such as an image."
    )
    shape: tuple[Annotated[int, Field(ge=1, le=2**20)], ...] = Field(
        (),
        description="`[]`: one value; `[n]`: n values; `[m, n]`: a tensor, from nested arrays or one of m * n.",
    )
    default: Scalar | None = Field(
        None, description="What a missing value and padding become; default: 0, or an empty string."
    )
    nulls: Literal["default", "omit", "fail"] = Field(
        "default",
        description="A missing value becomes the default, no feature at all, or an error that ends the run.",
    )
    fill: Scalar | None = Field(
        None, description="What a null inside a list becomes; without it such a null ends the run."
    )
    ragged: bool = Field(False, description="A list of any length; a missing one is empty.")
    pad: bool = Field(
        False, description="Cut a list to its `shape`, or pad it at the end, where otherwise it must fit."
    )
    encoding: Literal["list", "tensor", "raw"] = Field(
        "list", description="`tensor`: a serialized TensorProto; `raw`: little-endian bytes; both as one bytes value."
    )
    at: Expression | None = Field(None, description="From a map: the value at this key.")
    date_part: DatePart | None = Field(
        None,
        description="From a time in `timezone`: `weekday` 0 is Monday, `hour_of_week` 0 to 167.",
    )
    top_k: int | None = Field(
        None,
        ge=1,
        le=2**16,
        description="From an array or a map: the entries with the k greatest numbers, greatest first.",
    )
    order: Literal["greatest", "smallest"] = Field(
        "greatest",
        description="With `top_k`: `smallest` takes the smallest, smallest first.",
    )
    part: Literal["values", "keys"] = Field(
        "values", description="From a map: its values, or its keys in the order of their values."
    )
    clip: tuple[float, float] | None = Field(
        None, description="The smallest and the greatest number, such as [0, 100]."
    )
    log1p: bool = Field(False, description="The logarithm of 1 + x; x must be greater than -1, so clip it at 0 or so.")
    scale: Literal["standardise", "min_max"] | None = Field(
        None,
        description="By fitted moments: (x - mean) / standard deviation, or (x - min) / (max - min), for each place of a "
        "vector.",
    )
    boundaries: tuple[float, ...] | None = Field(
        None, description="To an id: 0 for a missing value, then 1 below the first boundary, and so on."
    )
    quantiles: int | None = Field(
        None,
        ge=2,
        le=1000,
        description="As `boundaries`, fitted so that this many buckets are equally full.",
    )
    hash_buckets: int | None = Field(
        None,
        ge=2,
        le=2**62,
        description="A hash as an id from 1 on and below this number; 0 is a missing value, and the padding of a list.",
    )
    salt: str | None = Field(
        None,
        description="With `hash_buckets`: features with one salt share ids; default: the feature's name.",
    )
    vocabulary: Name | None = Field(None, description="A name under `vocabularies`: the id of the token.")
    multi_hot: bool = Field(
        False,
        description="From ids: a vector with a 1 at each id, as `float32` or `int64`, for few ids.",
    )
    computed: Literal["sample", "model"] = Field(
        "sample",
        description="`model`: the record holds the number or token as it is, and [the model "
        "applies](features.md#feature-kinds) `clip`, `log1p`, `scale`, `boundaries`, `quantiles` or "
        "`vocabulary`.",
    )

    bias: Scalar | None = Field(
        None,
        description="A constant in place of the value in serving, for [what the service does not know "
        "yet](training.md#position-bias), such as the position.",
    )


class Vocabulary(Model):
    """Ids for tokens, fitted by `ctr-samples fit`: 0 is padding, 1 a missing value, then the OOV buckets, then the tokens.

    A token keeps its id for ever; new ones are added at the end. Features that name the same vocabulary share its ids.
    """

    capacity: int = Field(ge=1, le=100_000_000, description="Room for so many tokens: the embedding table never grows.")
    min_count: int = Field(1, ge=1, description="How often a token must occur in the fitted days.")
    oov_buckets: int = Field(1, ge=1, le=1_000_000, description="Tokens without an id share this many, by a hash.")

    @property
    def buckets(self) -> int:
        """Number of ids, and therefore of rows in an embedding table."""
        return 2 + self.oov_buckets + self.capacity


class Fitted(Model):
    """Where vocabularies, moments and quantiles are kept. `ctr-samples fit` makes the next version from training days."""

    path: str = Field(min_length=1, description="A place.")
    days: int = Field(1, ge=1, le=366, description="Days to fit on, the last of which is that of `--through`.")
