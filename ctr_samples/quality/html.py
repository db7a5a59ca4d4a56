"""Render page templates. Each page is a single file that loads nothing from the network and escapes all text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_PACKAGES = ("ctr_samples.quality.report", "ctr_samples.quality.trends")
"""Packages with templates, styles and scripts."""

_TURNING = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
"""Bidirectional control characters and their escapes. Unescaped, they could reorder the text around a value."""


def filled(template: str, styles: Sequence[str], scripts: Sequence[str], values: Mapping[str, Any]) -> str:
    """Render ``template`` with ``values``, inline styles and scripts, and a ``policy`` that allows no other code."""
    html = _environment().get_template(template).render(**values, **_inlined(tuple(styles), tuple(scripts)))
    visible = html.translate(_TURNING)
    return visible.encode("utf-8", "backslashreplace").decode()  # the data may contain lone surrogates


@cache
def _environment() -> Environment:
    """Return the template environment, in which an undefined name raises an error."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in _PACKAGES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _inlined(styles: tuple[str, ...], scripts: tuple[str, ...]) -> Mapping[str, Markup]:
    style, code = ("".join(map(_read, names)) for names in (styles, scripts))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(code)}; base-uri 'none'; form-action 'none'"
    )
    return {"style": Markup(style), "script": Markup(code), "policy": Markup(policy)}  # noqa: S704  our own files


def _read(name: str) -> str:
    found = (files(package) / "templates" / name for package in _PACKAGES)
    return next(file for file in found if file.is_file()).read_text("utf-8")


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
