"""Export the contract to a TensorFlow Metadata schema and to arguments of ``tf.io.parse_example``. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ctr_samples.contract import ExampleContract, FeatureSpec

_TYPES = {"int64": "INT", "float32": "FLOAT", "bytes": "BYTES"}
_DTYPES = {"int64": "int64", "float32": "float32", "bytes": "string"}


def contract_json(contract: ExampleContract) -> str:
    """Return contract.json: the contract, its fingerprint and, under ``parse``, TensorFlow's parsing arguments per
    feature.
    """
    document = {**contract.to_dict(), "fingerprint": contract.fingerprint, "parse": parsing(contract)}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def parsing(contract: ExampleContract) -> dict[str, dict[str, Any]]:
    """Map each feature to its ``tf.io`` parsing class and arguments.

    ``kind`` is FixedLenFeature (``shape``, ``dtype``, and ``default_value`` if the key may be missing), RaggedFeature
    (``dtype``), FixedLenSequenceFeature (``shape``, ``dtype``, and ``allow_missing`` if the list may be missing; for
    the feature lists of a SequenceExample) or, for the sparse layout, SparseFeature (``index_key``, ``value_key``,
    ``dtype``, ``size``). ``decode`` is the function that decodes a bytes value, ``parse_tensor`` or ``decode_raw``,
    with ``decoded_dtype`` and ``decoded_shape``.
    """
    if contract.layout == "sparse":
        others = {spec.name: _parsing(spec) for spec in contract.features if spec.role != "feature"}
        size = sum(part.size for part in contract.parts)
        joined = {
            "kind": "SparseFeature",
            "index_key": "indices",
            "value_key": "values",
            "dtype": "float32",
            "size": size,
        }
        return {"features": joined, **others}
    return {spec.name: _parsing(spec) for spec in contract.features}


def schema_pbtxt(contract: ExampleContract) -> str:
    """Return a tensorflow_metadata.v0.Schema in text form, for TensorFlow Data Validation."""
    lines: list[str] = []
    for spec in contract.features:
        lines += ["feature {", *(f"  {line}" for line in _schema_lines(spec, contract)), "}"]
    if contract.layout == "sparse":
        size = sum(part.size for part in contract.parts)
        lines += ["sparse_feature {", '  name: "features"', '  index_feature { name: "indices" }']
        lines += ['  value_feature { name: "values" }', f"  dense_shape {{ dim {{ size: {size} }} }}", "}"]
    return "\n".join(lines) + "\n"


def _parsing(spec: FeatureSpec) -> dict[str, Any]:
    dtype = "string" if spec.encoding != "list" else _DTYPES[spec.dtype]
    if spec.encoding != "list":
        shape = None if spec.shape is None else list(spec.shape)
        how = {"tensor": "parse_tensor", "raw": "decode_raw"}[spec.encoding]
        inside = {"decode": how, "decoded_dtype": spec.dtype, "decoded_shape": shape}
        return {"kind": "FixedLenFeature", "shape": [], "dtype": dtype, **_missing(spec, dtype, 1), **inside}
    if spec.sequence and spec.shape is not None:
        missing = {"allow_missing": True} if spec.nulls == "omit" else {}
        return {"kind": "FixedLenSequenceFeature", "shape": list(spec.shape), "dtype": dtype, **missing}
    if spec.shape is None:
        return {"kind": "RaggedFeature", "dtype": dtype}
    return {
        "kind": "FixedLenFeature",
        "shape": list(spec.shape),
        "dtype": dtype,
        **_missing(spec, dtype, spec.size or 0),
    }


def _missing(spec: FeatureSpec, dtype: str, size: int) -> dict[str, Any]:
    """Return a default for a key that may be missing. Without a default, TensorFlow rejects the record."""
    if spec.nulls != "omit":
        return {}
    zero: Any = {"int64": 0, "float32": 0.0, "string": ""}[dtype]
    return {"default_value": zero if spec.shape == () or spec.encoding != "list" else [zero] * size}


def _schema_lines(spec: FeatureSpec, contract: ExampleContract) -> Iterator[str]:
    kind = "BYTES" if spec.encoding != "list" else _TYPES[spec.dtype]
    yield f"name: {json.dumps(spec.name)}"
    yield f"type: {kind}"
    present = 0.0 if spec.nulls == "omit" else 1.0
    yield f"presence {{ min_fraction: {present} }}"
    if spec.encoding != "list" or (spec.shape == () and not spec.sequence):
        yield "shape { }" if present else "value_count { min: 1 max: 1 }"
    elif spec.shape is None or spec.sequence:
        yield "value_count { min: 0 }"
    else:
        yield "shape { " + " ".join(f"dim {{ size: {size} }}" for size in spec.shape) + " }"
    if spec.buckets is not None and kind == "INT" and contract.layout != "sparse":
        yield f"int_domain {{ min: 0 max: {spec.buckets - 1} is_categorical: true }}"
    yield f"annotation {{ tag: {json.dumps(spec.role)} }}"
