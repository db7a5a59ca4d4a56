"""The walls between packages: who may import whom, and what may be imported at all."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.project import PROJECT

PACKAGE = PROJECT / "ctr_samples"

LEAVES = {
    "addresses",
    "arguments",
    "contract",
    "crc32c",
    "day_paths",
    "errors",
    "feature_rules",
    "graph",
    "pairs",
    "periods",
    "private_directory",
    "typed",
    "vocabulary",
}
"""Modules that everyone may import: they import none of the rooms."""

MAY_IMPORT = {
    "__main__": {"cli"},
    "addresses": {"day_paths", "errors"},
    "arguments": {"errors"},
    "contract": {"errors", "typed"},
    "crc32c": set(),
    "day_paths": set(),
    "descriptions": {"contract"},
    "errors": set(),
    "feature_rules": {"vocabulary"},
    "graph": set(),
    "pairs": set(),
    "periods": {"errors"},
    "private_directory": set(),
    "typed": set(),
    "vocabulary": set(),
    "config": {"addresses", "day_paths", "errors", "feature_rules", "graph", "periods", "vocabulary"},
    "codec": LEAVES,
    "shards": LEAVES,
    "simulator": {"errors"},
    "records": LEAVES | {"codec", "shards"},
    "quality": LEAVES | {"codec", "config", "shards"},
    "sparksql": LEAVES | {"config"},
    "samples": LEAVES | {"codec", "config", "quality", "records", "shards", "sparksql"},
    "dataframes": LEAVES | {"config", "samples", "sparksql"},
    "tfrecord": LEAVES | {"codec", "config", "records", "shards", "sparksql"},
    "converters": LEAVES | {"records", "shards", "sparksql", "tfrecord"},
    "readers": LEAVES | {"codec", "descriptions", "shards"},
    "serving": LEAVES | {"codec", "shards"},
    "training": LEAVES | {"readers", "shards"},
    "job": LEAVES | {"codec", "config", "descriptions", "quality", "records", "samples", "shards", "sparksql"},
    "explain": LEAVES | {"config", "job", "samples", "sparksql"},
    "served": LEAVES | {"codec", "config", "job", "quality", "records", "samples", "shards", "sparksql"},
    "starter": {"errors", "serving"},
    "telemetry": LEAVES | {"config", "job", "quality", "shards"},
    "cli": LEAVES
    | {"codec", "config", "converters", "descriptions", "explain", "job", "quality", "records", "samples", "served"}
    | {"shards", "simulator", "sparksql", "starter", "telemetry", "tfrecord", "training"},
}

SEARCHING = (
    "addresses cli/pack config/document config/grain config/loading config/masking config/output config/references "
    "config/sentences config/units converters/images/folders day_paths explain/gather graph/sql_names job/checking "
    "job/forget job/forget_search periods quality/report/contents quality/report/features "
    "records/paths samples/inputs/databases samples/inputs/listing samples/inputs/log_days samples/inputs/malformed "
    "samples/partials/kept samples/watches/times serving/assembler serving/declared "
    "serving/feature_inputs telemetry/lineage training/fitting"
)
"""Modules that may search text. What SQL depends on, only the scanner of the graph finds."""

LIBRARIES = {
    "re": {*SEARCHING.split(), "shards", "sparksql", "starter", "tfrecord"},
    "pyspark": {"converters", "dataframes", "explain", "job", "samples", "served", "sparksql", "tfrecord"},
    "py4j": {"sparksql"},
    "tensorflow": {"readers", "training", "codec/reference"},
    "keras": {"training"},
    "numba": {"codec", "crc32c"},
    "obstore": {"shards/storage/objects"},
    "hdfs_native": {"shards/storage/hdfs"},
    "PIL": {"converters/images/image_checks"},
    "datasketches": {"quality/measure/numbers"},
    "jinja2": {"quality/html"},
    "openlineage": {"telemetry/lineage"},
}
"""Libraries, most of them heavy, and the only places that may import them."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def place(module: Path) -> str:
    """``codec/encoder`` for ctr_samples/codec/encoder.py."""
    return module.relative_to(PACKAGE).with_suffix("").as_posix()


def room(module: Path) -> str:
    return place(module).split("/")[0]


@cache
def statements(module: Path) -> tuple[ast.AST, ...]:
    return tuple(_inside(ast.parse(module.read_text())))


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from _inside(child)


@cache
def imported(module: Path) -> frozenset[str]:
    names = set()
    for node in statements(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} uses a relative import"
            names.add(node.module or "")
            if node.module == "ctr_samples":
                names |= {f"ctr_samples.{alias.name}" for alias in node.names}
    return frozenset(names)


def test_a_module_imports_only_rooms_that_it_may_know() -> None:
    strangers = set()
    for module in modules():
        own = room(module)
        for name in imported(module) if own != "__init__" else ():  # the package itself: the test of light imports
            parts = name.split(".")
            if parts[0] == "ctr_samples" and len(parts) > 1 and parts[1] not in ("__version__", own, *MAY_IMPORT[own]):
                strangers.add(f"{place(module)} imports {name}")
    assert strangers == set()


def test_a_library_is_imported_only_where_it_belongs() -> None:
    strangers = set()
    for module in modules():
        for name in imported(module):
            allowed = LIBRARIES.get(name.split(".")[0])
            if allowed is not None and not {room(module), place(module)} & allowed:
                strangers.add(f"{place(module)} imports {name}")
    assert strangers == set()


def test_the_map_of_a_package_names_each_of_its_files_and_no_other() -> None:
    named, there = {}, {}
    for package in {module.parent for module in modules()} - {PACKAGE}:
        files = {file.name for file in package.glob("*.py")} - {"__init__.py", "__main__.py"}
        if len(files) >= 4:  # among fewer one finds one's way
            text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
            named[place(package)] = set(re.findall(r"(?<![\w/])\w+\.py\b", text))
            there[place(package)] = files
    assert named == there
    assert named, "there are none"


LIGHT = [
    [
        ("ctr_samples", {"pyspark", "tensorflow", "numba", "pyarrow", "numpy"}),
        ("ctr_samples.cli", {"pyspark", "tensorflow", "numba", "pyarrow"}),
        ("ctr_samples.simulator", {"pyspark", "tensorflow", "numba"}),
    ],
    [
        ("ctr_samples.codec, ctr_samples.shards", {"pyspark", "tensorflow", "pandas"}),
        ("ctr_samples.readers, ctr_samples.serving", {"pyspark", "tensorflow"}),
    ],
    [
        ("ctr_samples.tfrecord.data_source", {"tensorflow", "numba", "pydantic"}),
        ("ctr_samples.samples.sink", {"tensorflow", "pydantic_settings"}),
        ("ctr_samples.converters.images, ctr_samples.converters.images.tasks", {"tensorflow", "PIL"}),
    ],
]
"""What a fresh interpreter imports, one after the other, and what it then must not have loaded."""


@pytest.mark.parametrize("imports", LIGHT, ids=["commands", "readers", "tasks"])
def test_an_import_stays_light(imports: list[tuple[str, set[str]]]) -> None:
    code = "import sys\n" + "".join(
        f"import {names}\nprint(*{{name.split('.')[0] for name in sys.modules}})\n" for names, _ in imports
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [set(line.split()) for line in done.stdout.splitlines()]
    found = {names: unwanted & now for (names, unwanted), now in zip(imports, loaded, strict=True)}
    assert found == {names: set() for names, _ in imports}


TESTS = PACKAGE.parent / "tests"
TEST_MODULES = {
    ".".join(module.relative_to(TESTS.parent).with_suffix("").parts): module
    for module in sorted(TESTS.rglob("*.py"))
    if module.stem not in ("__init__", "sitecustomize")
}
"""By their full names, but for the one that Python itself looks for."""


def helpers_of(module: Path) -> set[str]:
    """The modules of tests that a module of tests imports by their full names."""
    named = set(imported(module))
    for node in statements(module):
        if isinstance(node, ast.ImportFrom):
            named |= {f"{node.module}.{alias.name}" for alias in node.names}
    return named & TEST_MODULES.keys()


@pytest.mark.thorough
def test_tests_are_one_package_whose_modules_are_imported_by_their_full_names() -> None:
    places = {module.parent for module in TEST_MODULES.values()}
    assert {place for place in places if not (place / "__init__.py").exists()} == set()
    bare = {part for name in TEST_MODULES for part in name.split(".")[1:]} - sys.stdlib_module_names
    for name, module in TEST_MODULES.items():
        assert not bare & {one.split(".")[0] for one in imported(module)}, name
        assert "sys" + ".path" not in module.read_text(), name


def test_tests_lie_in_the_directories_of_the_packages() -> None:
    places = {module.parent.relative_to(TESTS) for module in TEST_MODULES.values()}
    inside = {place for place in places if len(place.parts) > 1}
    assert {place for place in inside if not (PACKAGE / place).is_dir()} == set()
    assert inside, "there are none"


@pytest.mark.thorough
def test_helpers_of_several_directories_lie_in_support_and_others_beside_their_tests() -> None:
    users: dict[str, set[str]] = {name: set() for name in TEST_MODULES}
    for name, module in TEST_MODULES.items():
        own = name.rpartition(".")[0]
        for helper in helpers_of(module):
            place, _, what = helper.rpartition(".")
            assert place in (own, "tests.support"), f"{name} imports {helper}, which lies in another directory"
            assert not what.startswith(("test_", "conftest")), f"{name} imports {helper}, which is no helper"
            users[helper].add(own)
    of_all = {name: places for name, places in users.items() if name.startswith("tests.support.")}
    assert {name for name, places in of_all.items() if len(places) == 1 and places != {"tests.support"}} == set()


def test_an_entry_point_is_thin() -> None:
    for job in (PACKAGE.parent / "jobs").glob("*.py"):
        assert len(job.read_text().splitlines()) < 80, job.name
