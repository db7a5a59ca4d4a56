"""A configuration that says only what differs from another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctr_samples.config import JobConfig, load_config
from ctr_samples.errors import ConfigError
from tests.support.command_line import invoke
from tests.support.tiny_days import CONFIG
from tests.support.whole_runs import write_config

SECOND = """\
base: tiny_days.yaml
labels:
  clicked: {window: 2h}
features:
  price: null
  hour: {expr: hour(impression.impression_time), dtype: int64}
output: {path: ROOT/second}
"""


@pytest.fixture
def second(tmp_path: Path) -> Path:
    write_config(tmp_path, "tiny_days", CONFIG.lstrip())
    return write_config(tmp_path, "second", SECOND)


def both(path: Path) -> tuple[JobConfig, JobConfig]:
    return load_config(path.with_name("tiny_days.yaml")).config, load_config(path).config


def test_keys_are_merged_values_are_replaced_and_null_removes(second: Path) -> None:
    base, config = both(second)
    assert config.labels["clicked"].window == 2 * base.labels["clicked"].window  # type: ignore[union-attr]
    assert config.labels["clicked"].source == "log"  # type: ignore[union-attr]
    assert list(config.features) == ["hour"]
    assert config.output.path.endswith("/second")
    assert config.sources == base.sources
    assert config.output.partitions == base.output.partitions


def test_the_manifest_keeps_the_merged_text(second: Path) -> None:
    document = load_config(second).document
    assert "base" not in document
    assert document["labels"]["clicked"] == {"source": "log", "where": "kind = 'click'", "window": "2h"}


def test_a_base_may_have_a_base_and_overrides_come_last(second: Path) -> None:
    differs = "base: second.yaml\nlabels: {clicked: {where: kind = 'buy'}}\noutput: {path: x}\n"
    third = write_config(second.parent, "third", differs)
    label = load_config(third, ["labels.clicked.window=3h"]).config.labels["clicked"]
    assert (label.where, label.window.total_seconds()) == ("kind = 'buy'", 3 * 3600)  # type: ignore[union-attr]


def test_a_mistake_is_found_in_the_file_and_line_that_has_it(second: Path) -> None:
    second.write_text(second.read_text().replace("2h", "soon"))
    with pytest.raises(ConfigError, match=r"second\.yaml:3: labels\.clicked\.window: found 'soon'"):
        load_config(second)
    second.write_text(second.read_text().replace("soon", "2h"))
    base = second.with_name("tiny_days.yaml")
    base.write_text(base.read_text().replace("time: t", "time: t, tim: u"))
    with pytest.raises(ConfigError, match=r"tiny_days\.yaml:9: impressions\.tim"):
        load_config(second)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("base: tiny_days.yaml", "base: gone.yaml"), r"second\.yaml:1: base: there is no configuration .*gone\.yaml"),
        (("base: tiny_days.yaml", "base: second.yaml"), r"second\.yaml:1: base: second\.yaml leads back to this file"),
        (("base: tiny_days.yaml", "base: 3"), r"second\.yaml:1: base: found 3, expected the path of a configuration"),
        (("output: {path: ROOT/second}", ""), r"second\.yaml: output\.path is that of .*tiny_days\.yaml"),
    ],
)
def test_a_base_that_cannot_be_is_refused(second: Path, change: tuple[str, str], message: str) -> None:
    write_config(second.parent, "second", SECOND, dict([change]))
    with pytest.raises(ConfigError, match=message):
        load_config(second)


def test_explaining_shows_the_merged_text_and_where_the_differences_stand(second: Path) -> None:
    text = invoke("config", "--config", str(second), "--explain").stdout
    assert f"    window: 2h  # {second}:3\n" in text
    assert f"  path: {second.parent}/second  # {second}:7\n" in text
    assert "    where: kind = 'click'\n" in text
    assert text.startswith(f"# From {second.parent}/tiny_days.yaml, with what differs\nname: tiny_days\n")
