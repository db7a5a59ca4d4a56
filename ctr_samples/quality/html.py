"""Fill page templates: each page is a single file that loads nothing from the network and is safe for any text."""

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
"""Bidirectional control characters, escaped: with them, a value could change how a sentence reads."""


def filled(template: str, styles: Sequence[str], scripts: Sequence[str], values: Mapping[str, Any]) -> str:
    """Render ``template`` with ``values``, its ``style``, its ``script`` and a ``policy`` that allows only these."""
    html = _environment().get_template(template).render(**values, **_inlined(tuple(styles), tuple(scripts)))
    visible = html.translate(_TURNING)
    return visible.encode("utf-8", "backslashreplace").decode()  # the data may contain lone surrogates


@cache
def _environment() -> Environment:
    """Return the template environment. StrictUndefined: an undefined name in a template is a bug, not a blank."""
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
