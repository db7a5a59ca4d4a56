"""Serving knows every key of a feature, or refuses the manifest: what it passed over would be skew that nobody sees."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from ruamel.yaml import YAML

from ctr_samples import feature_rules, serving
from ctr_samples.config import Feature
from ctr_samples.errors import InputError
from ctr_samples.serving.declared import ELSEWHERE, Declared
from tests.serving.assemblers import small
from tests.serving.served_day import COLUMNS_FEATURES

KEYS = {field.name for field in fields(Declared)} - {"name"}


def test_serving_knows_every_key_that_a_feature_can_have() -> None:
    assert set(Feature.model_fields) == KEYS | ELSEWHERE
    assert not KEYS & ELSEWHERE


def test_serving_has_the_defaults_of_the_configuration() -> None:
    ours = {field.name: field.default for field in fields(Declared) if field.name in KEYS - {"cross", "dtype"}}
    assert ours == {name: Feature.model_fields[name].default for name in ours}


@pytest.mark.parametrize("kind", feature_rules.PAIRS)
def test_serving_has_the_keys_and_defaults_of_values_that_are_made_of_two_sources(kind: str) -> None:
    (model,) = (one for one in get_args(Feature.model_fields[kind].annotation) if one is not type(None))
    keys = {field.alias or name: field for name, field in model.model_fields.items()}
    assert {name: field.default for name, field in keys.items() if not field.is_required()} == dict(
        feature_rules.PAIR_DEFAULTS[kind]
    )
    assert set(feature_rules.PAIRS[kind]) <= keys.keys()


def test_serving_uses_every_key_that_it_knows() -> None:
    sources = [*Path(serving.__path__[0]).glob("*.py"), Path(feature_rules.__file__)]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source.read_text()))]
    assert {node.attr for node in nodes if isinstance(node, ast.Attribute)} | feature_rules.PAIRS.keys() >= KEYS


def test_every_kind_of_feature_is_among_those_that_serving_must_make_byte_for_byte() -> None:
    served = YAML(typ="safe").load(COLUMNS_FEATURES).values()
    assert {Feature.model_validate(entry).kind for entry in served} == set(feature_rules.KINDS)


PLAIN = {"from": "impression.position", "dtype": "int64", "encoding": "list", "default": None}


def test_a_manifest_whose_feature_has_an_unknown_key_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        small({"position": {**PLAIN, "winsorise": 0.99}})
    assert str(caught.value) == (
        "features.position: found the key 'winsorise' in the manifest, expected only keys that serving knows, since any "
        "other may change the values that a model sees; serve with the version of ctr-samples that wrote the samples."
    )


def test_a_key_that_is_called_like_an_attribute_of_ours_is_unknown_too() -> None:
    with pytest.raises(InputError, match="found the key 'name' in the manifest"):
        small({"position": {**PLAIN, "name": "p"}})


def test_a_manifest_with_known_keys_alone_is_served() -> None:
    assert small({"position": PLAIN}).assemble({"position": 3}, {})[-1] == 3
