"""The pages in docs/recipes are programs: each is run as it stands there, and the index names all of them."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from tests.support.pages import WITH_OTHER_PACKAGES, blocks
from tests.support.project import PROJECT

pytestmark = pytest.mark.slow

RECIPES = PROJECT / "docs/recipes"
PAGES = sorted(page for page in RECIPES.glob("*.md") if page.name != "README.md")
RUN_HERE = [page for page in PAGES if page.stem not in WITH_OTHER_PACKAGES]

with warnings.catch_warnings():  # its import warns about itself
    warnings.simplefilter("ignore")
    import tensorflow  # noqa: F401


# Keras asks TensorFlow's variables for arrays in a way that NumPy 2 finds old.
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: page.stem)
def test_a_page_runs_as_it_stands(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(RECIPES / "files")
    programs = list(blocks(page))
    names: dict[str, object] = {"__name__": "recipe"}
    if any(re.search(r"\bspark\.|\(spark\b", program) for program in programs):
        names["spark"] = request.getfixturevalue("spark")
    for program in programs:
        exec(compile(program, str(page), "exec"), names)  # noqa: S102


def test_a_page_has_a_program_that_asserts_what_it_shows() -> None:
    for page in PAGES:
        assert "\nassert " in "".join(blocks(page)), page.name


def test_the_index_has_one_line_for_each_page() -> None:
    named = re.findall(r"^- \[[^]]+\]\(([\w-]+\.md)\): ", (RECIPES / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == [page.name for page in PAGES]
    assert len(named) >= 8


@pytest.mark.parametrize(
    "page", [*PAGES, RECIPES / "README.md", *RECIPES.glob("deployment/*.md")], ids=lambda page: page.stem
)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
