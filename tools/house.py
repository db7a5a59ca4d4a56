"""Prints what the project weighs: modules and lines by package, templates, scripts, and words of documents. `make house`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

KINDS = ("modules", "lines", "code", "docstrings", "imports")
PAGES = {".css", ".html", ".j2", ".js", ".properties", ".yaml"}


def weight(path: Path) -> Counter[str]:
    """Count the lines of a module. What is neither code, docstring nor import is blank or a comment."""
    text = path.read_text()
    lines, docstrings, imports = text.splitlines(), set[int](), set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(lines_of(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(lines_of(node))
    empty = {number for number, line in enumerate(lines, 1) if not line.strip() or line.lstrip().startswith("#")}
    code = len(lines) - len(empty | docstrings | imports)
    return Counter(modules=1, lines=len(lines), code=code, docstrings=len(docstrings), imports=len(imports))


def lines_of(node: ast.stmt) -> range:
    """The lines of a statement, from 1 on."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def table(root: str, files: Iterable[Path]) -> Iterator[str]:
    """The weight of each package below a root, the heaviest first, and of all."""
    packages: dict[str, Counter[str]] = {}
    for path in files:
        below = path.relative_to(root).parts
        packages.setdefault(below[0] if len(below) > 1 else "(itself)", Counter()).update(weight(path))
    packages = dict(sorted(packages.items(), key=lambda entry: -entry[1]["lines"]))
    packages["all"] = sum(packages.values(), Counter())
    yield f"{root:24}" + "".join(f"{kind:>12}" for kind in KINDS)
    for name, counts in packages.items():
        yield f"  {name:22}" + "".join(f"{counts[kind]:>12,}" for kind in KINDS)


def house() -> Iterator[str]:
    """The tables of the files that Git knows."""
    known = [Path(name) for name in subprocess.check_output(["git", "ls-files"], text=True).splitlines()]
    for root in ("ctr_samples", "tests"):
        yield from table(root, [path for path in known if path.parts[0] == root and path.suffix == ".py"])
        yield ""
    pages = [path for path in known if path.parts[0] == "ctr_samples" and path.suffix in PAGES]
    scripts = [path for path in known if path.parts[0] in ("jobs", "tools") or path.name == "Makefile"]
    for name, some in (("templates, styles and settings", pages), ("jobs, tools and the Makefile", scripts)):
        yield f"{name}: {len(some)} files, {sum(len(path.read_text().splitlines()) for path in some):,} lines"
    documents = [path for path in known if path.suffix == ".md"]
    yield f"documents: {len(documents)} files, {sum(len(path.read_text().split()) for path in documents):,} words"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in house())
