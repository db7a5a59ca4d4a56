"""The programs in the pages of docs/recipes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path


def blocks(page: Path) -> Iterator[str]:
    """The Python blocks of a page, each behind as many empty lines as there are above it, so that errors name its lines."""
    text = page.read_text()
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield "\n" * text[: match.start(1)].count("\n") + match[1]


WITH_OTHER_PACKAGES = ("dlrm", "grain", "torch")
"""Pages that need packages outside the project's environment. `make test-recipes` runs them in one that has these."""
