"""Samples of users who are to be forgotten: the next generation lacks them, and all others keep their bytes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import Result

from ctr_samples.errors import UsageError
from ctr_samples.periods import parse_period
from ctr_samples.quality.pseudonyms import Pseudonyms
from ctr_samples.records.read import damage_of, records_of
from ctr_samples.shards import Manifest, open_storage
from ctr_samples.shards.generation_history import rollback
from tests.support.command_line import invoke
from tests.support.small_days import CONTRACT, published, rows
from tests.support.whole_runs import Made

DAY = parse_period("2019-06-05")
GONE = ("n7", "n8", "n399", "n450")
"""Names that one sample each has: three of train, the last of eval."""


def published_samples(root: Path, **more: Any) -> Path:
    """A day of samples below a directory; gives theirs."""
    published(root / "samples", CONTRACT, lambda split, first: rows(first, 50), **more)
    return root / "samples"


def two_days(root: Path, **more: Any) -> Path:
    """The same, and the next day with other samples."""
    samples = published_samples(root, **more)
    published(samples, CONTRACT, lambda split, first: rows(1000 + first, 50), day="2019-06-06", **more)
    return samples


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_days(tmp_path_factory.mktemp("two_days"))


@pytest.fixture
def root(untouched: Path, tmp_path: Path) -> Path:
    """Two published days, which a test may change."""
    return shutil.copytree(untouched, tmp_path / "samples")


def forget(root: Path, values: str, *more: str, key: str = "name") -> Result:
    file = root.with_name("values.txt")
    file.write_bytes(values.encode())
    return invoke("forget", root, "--key", key, "--values", file, *more)


def told(done: Result) -> str:
    return re.sub(r"\s+", " ", done.stderr)


def frames(root: Path, manifest: Manifest) -> list[bytes]:
    """The records of each split in their published order."""
    storage = open_storage(root)
    chunks = [
        chunk for split in manifest.splits for shard in manifest.of_split(split) for chunk in records_of(storage, shard)
    ]
    return [bytes(chunk.records(n, n + 1)) for chunk in chunks for n in range(len(chunk))]


def current(root: Path, day: str = "2019-06-05") -> Manifest:
    return Made.newest(root, parse_period(day)).manifest


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_next_generation_lacks_them_and_all_others_keep_their_bytes_and_their_order(
    tmp_path: Path, compression: str
) -> None:
    root = two_days(tmp_path, compression=compression)
    before = current(root)
    done = forget(root, "\n".join([*GONE, "nobody", ""]))
    assert (done.exit_code, done.stdout) == (0, f"{root}/dt=2019-06-05/manifests/00000002.json\n")
    assert "Forgot 4 sample(s) of 1 day(s)." in done.stderr
    after = current(root)
    names = [name.encode() + b"\n" for name in GONE]
    staying = [frame for frame in frames(root, before) if not any(_has(frame, name[:-1]) for name in names)]
    assert len(staying) == 496
    assert frames(root, after) == staying
    assert dict(after.accounting) == {**before.accounting, "samples": 496, "forgotten": 4}
    assert after.fingerprint == before.fingerprint
    assert list(damage_of(open_storage(root), after.shards)) == []
    made = Made(after, root)
    assert after.label_sum("clicked") == sum(row["clicked"] for row in made.samples)
    assert (made.metrics.generation, made.metrics.samples) == (2, {"train": 397, "eval": 99})
    assert "of users to be forgotten" in made.page
    assert current(root, "2019-06-06").generation == 1
    assert not [name for name in GONE if f'"{name}"' in after.to_json().decode()]


def _has(frame: bytes, name: bytes) -> bool:
    return re.search(re.escape(name) + rb"(?![0-9])", frame) is not None


def test_whoever_was_forgotten_is_not_looked_for_again(root: Path) -> None:
    assert forget(root, "n7\n").exit_code == 0
    again = forget(root, "n7\n")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "Forgot 0 sample(s) of 0 day(s)." in again.stderr
    assert current(root).generation == 2


def test_a_number_is_found_as_a_number(root: Path) -> None:
    assert "Forgot 2 sample(s) of 2 day(s)" in forget(root, "7\n1007\n", key="impression_id").stderr


def manifest_file(root: Path, generation: int) -> Path:
    return root / f"dt=2019-06-05/manifests/{generation:08d}.json"


def go_back(root: Path, to: int) -> None:
    """The next generation is one of before."""
    rollback(open_storage(root), DAY, to, datetime.now(UTC), "0" * 8)


def publish_again(root: Path, generation: int, without: str = "n7") -> None:
    """What a run of the day publishes from logs that may lack somebody: nothing of it tells that users were forgotten."""

    def staying(split: str, first: int) -> pa.RecordBatch:
        batch = rows(first, 50)
        return batch.filter(pc.not_equal(batch["name"], without))

    published(root, CONTRACT, staying, generation=generation, run=f"20190607T020000-{generation:08x}")


def damage(root: Path, generation: int) -> None:
    manifest_file(root, generation).write_bytes(b"{")


def move_away(root: Path, generation: int) -> None:
    manifest_file(root, generation).unlink()


def forget_n7(root: Path, generation: int) -> None:
    """Make a generation without somebody, unless the newest lacks them."""
    assert forget(root, "n7\n").exit_code == 0
    assert current(root).generation == generation


Step = tuple[Callable[[Path, int], object], int]
"""What is done, with the number of a generation."""
PASTS: dict[str, tuple[list[Step], int, list[int], list[Step]]] = {
    "at once": ([(forget_n7, 2)], 2, [1], []),
    "after later runs": (
        [(forget_n7, 2), (publish_again, 3), (publish_again, 4)],
        2,
        [1],
        [(go_back, 2), (go_back, 3)],
    ),
    "after a rollback": (
        [(publish_again, 2), (go_back, 1), (forget_n7, 4), (publish_again, 5)],
        4,
        [1, 3],
        [(go_back, 4)],
    ),
    "when a manifest is damaged": ([(forget_n7, 2), (damage, 2)], 2, [1], [(publish_again, 3)]),
    "when a manifest was moved away": ([(forget_n7, 2), (move_away, 2), (publish_again, 2)], 2, [1], []),
    "who was only in an earlier generation": ([(publish_again, 2), (forget_n7, 2)], 2, [1], []),
}
"""What happened, the generation with which users were forgotten, those that may have them, and what is possible then."""


@pytest.mark.some(3)
@pytest.mark.parametrize("past", PASTS)
def test_no_rollback_brings_them_back(root: Path, past: str) -> None:
    happened, forgotten, may_have, possible = PASTS[past]
    for step, generation in happened:
        step(root, generation)
    for then in ([], possible):
        for step, generation in then:
            step(root, generation)
        for to in may_have:
            said = f"^Generation {to} of 2019-06-05 may still have samples of users who were forgotten with generation "
            with pytest.raises(UsageError, match=rf"{said}{forgotten}\. Go back to"):
                go_back(root, to)


def test_a_day_of_which_nobody_was_forgotten_goes_back_when_its_newest_manifest_is_damaged(root: Path) -> None:
    publish_again(root, 2, without="")
    forget(root, "n1007\n")
    damage(root, 2)
    go_back(root, 1)
    assert current(root).generation == 3


def test_whoever_is_only_in_an_earlier_generation_is_told(root: Path) -> None:
    publish_again(root, 2)
    done = forget(root, "n7\n")
    assert (done.exit_code, done.stdout, current(root).generation) == (0, "", 2)
    assert "Earlier generations still have them" in done.stderr


NO_ID = ("seven", "9223372036854775808", "-9223372036854775809", " 7", '"7"', "7,8", "1_0", "7.0", "\u0667")


@pytest.mark.parametrize(
    ("key", "values", "said"),
    [
        (
            "user",
            "u1\n",
            "The samples have no column 'user'; they have number, vector, city, name, clicked, impression_id.",
        ),
        (
            "city",
            "1\n",
            "The column 'city' does not tell users apart: it is one of 4 numbers, which several users share.",
        ),
        ("vector", "1\n", "The column 'vector' does not tell users apart: it is a list of float32."),
        ("clicked", "1\n", "The column 'clicked' is a label, which is no id. Give a column with an id as it is."),
        *[
            ("impression_id", f"7\n{line}\n", "has whole numbers of 64 bits, but a line of `--values` is ")
            for line in NO_ID
        ],
        ("name", "\n", "values.txt has no line"),
        ("name", "n\x007\n", "it has a zero byte, so it is no text in UTF-8"),
    ],
)
def test_a_column_or_a_file_that_names_no_user_is_refused(root: Path, key: str, values: str, said: str) -> None:
    done = forget(root, values, key=key)
    assert done.exit_code == 2
    assert said in told(done)
    assert current(root).generation == 1


@pytest.mark.parametrize(
    "text",
    ["\ufeffn7\nn8\n", "n7\r\nn8\r\n", "\n\nn7\nn8", "n8\nn7\nn7\n", "n7\nn8\n\n\r\n"],
    ids=["mark", "windows", "no end", "twice", "empty lines"],
)
def test_a_file_of_any_editor_names_the_same_users(root: Path, text: str) -> None:
    done = forget(root, text)
    assert (done.exit_code, done.stderr.splitlines()[0]) == (0, "Forgot 2 sample(s) of 1 day(s).")
    assert "match no sample" not in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "n8 ", " n8", "\tn8", "n8\t", "\u00a0n8", '"n8"', "'n8'", '"n8', "n8,", "n8;", "n7,n8", "n7 n8", "n8|x", "n8\rn9",
        "\u201cn8\u201d", "\ufeffn8", "n8\u200b", "n8\x0cn9", "n8\u2028n9", "n8\x85", '"n8","Lee"', ' "n8" ', '"nobody"',
    ],
)  # fmt: skip
def test_a_line_of_which_samples_have_a_part_is_refused_before_anything_is_published(root: Path, line: str) -> None:
    done = forget(root, f"n7\n{line}\nn1007\n")
    assert (done.exit_code, done.stdout) == (2, "")
    said = told(done)
    assert "No sample has the value in line 2 of" in said
    assert "Expected one value in each line as the samples have it, with no quotes, blanks or commas around it." in said
    assert (current(root).generation, current(root, "2019-06-06").generation) == (1, 1)


def test_values_that_no_sample_has_are_counted_with_their_lines(root: Path) -> None:
    done = forget(root, "n7\nnobody\nn1007\n\nnobody\nLee, Ann\n")
    said = told(done)
    assert done.exit_code == 0
    assert "Forgot 2 sample(s) of 2 day(s). 2 of 4 value(s) match no sample: lines 2, 6 of" in said


def test_an_id_with_blanks_quotes_and_commas_is_forgotten_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "samples"
    odd = [' "Lee, Ann" ', "a\u2028b", "c\rd", "\x1c"]

    def with_odd_names(split: str, first: int) -> pa.RecordBatch:
        batch = rows(first, 50)
        names = [*odd, *batch["name"].to_pylist()[len(odd) :]] if first == 0 else batch["name"]
        return batch.set_column(3, "name", pa.array(names))

    published(root, CONTRACT, with_odd_names)
    done = forget(root, "\n".join(odd))
    assert (done.exit_code, done.stderr.splitlines()[0]) == (0, "Forgot 4 sample(s) of 1 day(s).")


CONFIG = {
    "name": "feed",
    "timezone": "UTC",
    "sources": {"log": {"path": "log/{date}.json", "format": "json", "schema": "t string, kind string, who string"}},
    "impressions": {"source": "log", "time": "t", "user": "who", "article": "item", "columns": {"same": "who", "city": "city"}},
    "labels": {"clicked": {"source": "log", "where": "kind = 'click'", "window": "1h"}},
    "features": {
        "name": {"from": "impression.user", "dtype": "bytes"},
        "user_row": {"from": "impression.same", "dtype": "int64", "vocabulary": "users"},
        "visitor": {"expr": "concat(impression . user, '')", "dtype": "int64", "vocabulary": "visitors"},
        "city": {"from": "impression.city", "dtype": "int64", "vocabulary": "cities"},
    },
    "vocabularies": {name: {"capacity": 9} for name in ("users", "visitors", "cities")},
    "fitted": {"path": "${BASE}/fitted"},
    "partials": {"path": "partials"},
    "output": {"path": "out", "ids_salt": "${SALT}"},
}  # fmt: skip


def test_the_vocabularies_of_users_lose_them_and_what_else_may_name_them_is_told(tmp_path: Path) -> None:
    root = published_samples(tmp_path, config=CONFIG)
    directory = root / f"dt=2019-06-05/data/{current(root).made_by}/vocabularies"
    directory.mkdir()
    for name in ("users", "visitors", "cities"):
        (directory / f"{name}.txt").write_text("n1\nn7\nn77\nn8\n")
    done = forget(root, "n7\nn8\n")
    assert done.exit_code == 0
    directory = root / f"dt=2019-06-05/data/{current(root).made_by}/vocabularies"
    lines = {file.stem: file.read_text().split("\n") for file in directory.iterdir()}
    assert lines["users"] == lines["visitors"] == ["n1", "\0forgotten 2", "n77", "\0forgotten 4", ""]
    assert lines["cities"] == ["n1", "n7", "n77", "n8", ""]
    said = told(done)
    assert "The fitted state in ${BASE}/fitted may have them as tokens: once the logs lack them, run" in said
    assert (
        "What is kept of finished days in partials may have them: once the logs lack them, remove that directory"
        in said
    )


@pytest.mark.parametrize("config", [CONFIG, {}], ids=["of a run", "that cannot be read"])
def test_nothing_beside_the_samples_names_a_user(tmp_path: Path, config: dict[str, object]) -> None:
    orphans = {"orphans": 1, "orphan_sample": [{"time": "2019-06-05T00:00:00Z", "user": "n7"}]}
    root = published_samples(tmp_path, config=config)
    manifest = current(root)
    manifest_file(root, 1).write_bytes(replace(manifest, labels={"clicked": orphans}).to_json())
    assert forget(root, "n7\n").exit_code == 0
    assert dict(current(root).labels["clicked"]) == {"orphans": 1}
    texts = [manifest_file(root, 2), *(root / f"dt=2019-06-05/data/{current(root).made_by}").glob("*.*")]
    assert {file.name for file in texts} >= {"00000002.json", "metrics.json", "report.html", "statistics.pbtxt"}
    assert [file.name for file in texts if re.search(r"\bn[0-9]+\b", file.read_text())] == []


@pytest.mark.parametrize("ids", ["raw", "pseudonyms"])
def test_a_check_finds_who_is_named_in_a_manifest_as_an_id_or_by_a_pseudonym(tmp_path: Path, ids: str) -> None:
    config = {key: CONFIG[key] for key in ("name", "timezone", "sources")} | {
        "impressions": {"source": "log", "time": "t", "user": "who", "article": "item"},
        "labels": {"clicked": {"expr": "kind = 'a'"}},
        "features": {"name": {"from": "impression.user", "dtype": "bytes"}},
        "output": {"path": "out", "ids": ids},
    }
    root = published_samples(tmp_path, config=config)
    named = "n7" if ids == "raw" else Pseudonyms("feed").of("n7")
    orphans = {"orphans": 1, "orphan_sample": [{"time": "2019-06-05T00:00:00Z", "user": named, "article": "n8"}]}
    manifest_file(root, 1).write_bytes(replace(current(root), labels={"clicked": orphans}).to_json())
    assert [checked(root, name) for name in ("n7\n", "n8\n", "nobody\n")] == [
        (3, ["9 shard(s)", "00000001.json"]),
        (3, ["9 shard(s)"]),
        (0, []),
    ]


def checked(root: Path, values: str) -> tuple[int, list[str]]:
    done = forget(root, values, "--check")
    places = [line.split(": ")[0] for line in done.stdout.splitlines() if not line.endswith(": nothing")]
    return done.exit_code, [place.rpartition("/")[2].partition(" of ")[0] for place in places]


def test_a_check_that_is_not_told_where_to_look_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = published_samples(tmp_path, config=CONFIG)
    monkeypatch.setenv("SALT", "s")
    assert checked(root, "nobody\n") == (2, [])
    monkeypatch.setenv("BASE", str(tmp_path))
    assert checked(root, "nobody\n") == (0, [])
