"""Image folders to TFRecords: what TensorFlow reads back, which set an image falls into, and what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import random
import runpy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

import ctr_samples
from ctr_samples.converters.images import conversion as writing
from ctr_samples.converters.images import folders, write_images
from ctr_samples.converters.images.image_checks import Size, UnreadableImage, size_of
from ctr_samples.converters.images.tasks import split_of
from ctr_samples.errors import AccountingError, InputError, PublishConflict, UsageError
from ctr_samples.shards import Table, open_storage
from tests.support.project import PROJECT

pytestmark = pytest.mark.slow

BLUE, TEAL = (20, 40, 200), (0, 128, 128)

with warnings.catch_warnings():  # its import warns about itself
    warnings.simplefilter("ignore")
    import tensorflow as tf


def encoded(
    kind: str = "JPEG", mode: str = "RGB", size: tuple[int, int] = (6, 4), colour: Any = BLUE, **save: Any
) -> bytes:
    """One colour; ``size`` is width and height, as Pillow has it."""
    out = io.BytesIO()
    Image.new(mode, size, colour).save(out, kind, **save)
    return out.getvalue()


def noise(kind: str, size: tuple[int, int] = (40, 30), seed: int = 1) -> bytes:
    """An image that does not compress to nothing, so that it can be cut."""
    out = io.BytesIO()
    Image.frombytes("RGB", size, random.Random(seed).randbytes(size[0] * size[1] * 3)).save(out, kind)
    return out.getvalue()


Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """``put(**{"cats/1.jpg": b"..."})`` makes files in a directory of images and gives that directory."""

    def make(files: dict[str, bytes]) -> Path:
        root = tmp_path / "photos [1]"  # with characters that mean something in a glob
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return root

    return make


SPEC = {
    **{name: tf.io.FixedLenFeature((), tf.string) for name in ("image", "label_name", "path", "key")},
    **{name: tf.io.FixedLenFeature((), tf.int64) for name in ("height", "width", "depth", "label")},
}


def records(output: Path, split: str = "*") -> list[dict[str, Any]]:
    """The records as TensorFlow reads them, in the order of their paths, each with the bytes that its key stands for."""
    files = sorted(map(str, output.glob(f"split={split}/*.tfrecord")))
    examples = [tf.io.parse_single_example(record, SPEC) for record in tf.data.TFRecordDataset(files)]
    rows = [{name: value.numpy() for name, value in example.items()} for example in examples]
    assert [row["key"].decode() for row in rows] == [hashlib.sha256(row["image"]).hexdigest() for row in rows]
    return sorted(rows, key=lambda row: row["path"])


def test_folders_become_records_that_tensorflow_decodes_resizes_and_scales(
    spark: SparkSession, put: Put, tmp_path: Path
) -> None:
    wide, grey, clear = encoded(), encoded("PNG", "L", (3, 5), 77), encoded("PNG", "RGBA", (2, 2), (*TEAL, 9))
    root = put({"dogs/a b%41.JPG": wide, "cats/é.png": grey, "cats/clear.png": clear, "Zoo/1.png": clear})
    report = write_images(spark, str(root), str(tmp_path / "out"))
    assert {name: sum(counts) for name, counts in report.classes.items()} == {"Zoo": 1, "cats": 2, "dogs": 1}
    assert (report.unreadable, report.beside, report.generation) == (0, (), 1)
    sizes = ("height", "width", "depth", "label")
    assert [
        (row["path"].decode(), *(row[name] for name in sizes), row["label_name"]) for row in records(tmp_path / "out")
    ] == [
        ("Zoo/1.png", 2, 2, 4, 0, b"Zoo"),
        ("cats/clear.png", 2, 2, 4, 1, b"cats"),
        ("cats/é.png", 5, 3, 1, 1, b"cats"),
        ("dogs/a b%41.JPG", 4, 6, 3, 2, b"dogs"),
    ]
    _, _, cat, dog = records(tmp_path / "out")
    assert tf.io.decode_jpeg(cat["image"], channels=3).numpy().tolist() == [[[77] * 3] * 3] * 5
    assert dog["image"] == wide
    scaled = tf.image.resize(tf.io.decode_jpeg(dog["image"], channels=3), (8, 8)) / 255
    assert scaled.shape == (8, 8, 3)
    assert scaled.numpy().mean(axis=(0, 1)) == pytest.approx([c / 255 for c in BLUE], abs=0.02)
    table = Table(open_storage(tmp_path / "out")).current()
    assert table is not None
    fields = {field["name"]: field for field in table.schemas[-1]["fields"]}
    ctr_samples.register(spark)
    back = spark.read.format("tfrecord").load(str(tmp_path / "out"))
    assert fields["label"]["metadata"] == back.schema["label"].metadata == {"names": ["Zoo", "cats", "dogs"]}
    assert back.select("label", "label_name", "split").distinct().count() == 3


def test_the_split_is_a_share_of_all_hashes() -> None:
    keys = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(2000)]
    assert sum(split_of(key, 0.1) == "validation" for key in keys) == 204
    assert {split_of(key, 0.0) for key in keys} == {"train"}
    assert split_of("0" * 64, 0.1) == "validation"
    assert split_of("f" * 64, 0.999) == "train"


def test_an_image_has_the_same_set_and_place_wherever_it_is(spark: SparkSession, put: Put, tmp_path: Path) -> None:
    files = {f"a/{i}.png": noise("PNG", seed=i) for i in range(30)}
    root = put({**files, **{f"b/copy of {i}.png": noise("PNG", seed=i) for i in range(30)}})
    contents = []
    for number in range(2):
        out = tmp_path / f"out{number}"
        report = write_images(spark, str(root), str(out), validation=0.3, shard_size=40_000)
        contents.append(sorted((one.name[:10], one.read_bytes()) for one in out.rglob("*.tfrecord")))
        root = root.rename(tmp_path / "moved")
    assert len(contents[0]) >= 4
    assert contents[0] == contents[1]
    train, validation = ({row["key"] for row in records(out, split)} for split in ("train", "validation"))
    assert train.isdisjoint(validation)
    assert len(train) + len(validation) == 30
    assert report.classes["a"] == report.classes["b"] == (len(train), len(validation))
    assert 4 < len(validation) < 14


UNREADABLE = {
    "cats/cut.jpg": (noise("JPEG")[:-400], "cats/cut.jpg is damaged (image file is truncated"),
    "cats/cut.png": (noise("PNG")[:-400], "cats/cut.png is damaged ("),
    "cats/moving.gif": (encoded("GIF", "L", (1, 1), 0), "cats/moving.gif is not a JPEG or PNG; it begins with b'GIF8"),
    "cats/empty.jpg": (b"", "cats/empty.jpg is empty"),
    "cats/large.png": (encoded("PNG") + bytes(2 << 20), "cats/large.png has more than 2 MiB"),
}


def test_an_image_that_cannot_be_read_fails_the_run_unless_so_many_may_be_skipped(
    spark: SparkSession, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MOST_BYTES", 2 << 20)
    root, output = put({"cats/cut.jpg": UNREADABLE["cats/cut.jpg"][0], "cats/1.jpg": encoded()}), str(tmp_path / "out")
    more_than = (
        "files cannot be read as images, more than the {} that may be skipped: cats/cut.jpg is damaged \\(image file"
    )
    with pytest.raises(InputError, match=f"1 of 2 {more_than.format('0.00%')}"):
        write_images(spark, str(root), output)
    assert not list(tmp_path.rglob("*.json"))
    whole = {f"dogs/{i}.jpg": encoded(colour=(i, i, i)) for i in range(14)} | {"cats/1.jpg": encoded()}
    root = put({**whole, **{name: content for name, (content, _) in UNREADABLE.items()}, "LICENSE.txt": b"free"})
    with pytest.raises(InputError, match=f"5 of 20 {more_than.format('24.90%')}"):
        write_images(spark, str(root), output, unreadable="skip", max_unreadable_rate=0.249)
    report = write_images(spark, str(root), output, unreadable="skip", max_unreadable_rate=0.25)
    assert report.unreadable == 5
    for (path, reason), (name, (_, said)) in zip(report.first, sorted(UNREADABLE.items()), strict=True):
        assert path == name
        assert f"{path} {reason}".startswith(said)
    assert report.beside == ("LICENSE.txt",)
    assert {row["path"].decode() for row in records(tmp_path / "out")} == set(whole)
    assert report.images == 15


SKIP: dict[str, Any] = {"unreadable": "skip", "max_unreadable_rate": 0.5}
FOLDER = b"a folder"
REFUSED: list[tuple[dict[str, bytes], dict[str, Any], str]] = [
    ({}, {}, "does not exist; check the path"),
    ({"a": FOLDER}, {}, "holds no class folder with files in it"),
    ({"1.jpg": b"x"}, {}, "holds no class folder with files in it; expected one folder for each class, such as"),
    ({".git/1.jpg": b"x"}, {}, "holds no class folder with files in it"),
    ({"a/1.jpg": b"x", "b/.keep": b"x"}, {}, "the class folder b holds no file; fill it, or remove it"),
    ({"a/b/1.jpg": b"x"}, {}, "a/b/1.jpg lies in a folder within a class folder; expected .*CLASS/IMAGE"),
    ({"a/1.jpg": b"x", "a/more": FOLDER}, {}, "a/more is a folder within a class folder; remove it"),
    ({"a/1.jpg": b"x", "a/_DSC0002.JPG": b"x"}, {}, r"1 name\(s\) that begin with `_`, such as a/_DSC0002.JPG, which"),
    ({"a/1.jpg": b"x", "_b/1.jpg": b"x"}, {}, r"1 name\(s\) that begin with `_`, such as _b/1.jpg"),
    (
        {"a/1.jpg": encoded(), "a/2.jpg": encoded(), "b/1.jpg": b"text"},
        SKIP,
        "the class folder b has no image that can be read; fill it, or remove it",
    ),
    ({"a/1.jpg": b"x"}, {"validation": 1.0}, "validation is 1; expected a share from 0 up to, but not including, 1"),
    ({"a/1.jpg": b"x"}, {"max_unreadable_rate": -0.1}, "max_unreadable_rate is -0.1; expected a share"),
]


def test_directories_of_another_form_and_shares_that_are_none_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for number, (files, options, problem) in enumerate(REFUSED):
        root = tmp_path / f"{number}"
        for name, content in files.items():
            path = root / name
            (path if content is FOLDER else path.parent).mkdir(parents=True, exist_ok=True)
            if content is not FOLDER:
                path.write_bytes(content)
        with pytest.raises((InputError, UsageError), match=problem):
            write_images(spark, str(root), str(tmp_path / "out"), **options)
    assert not list(tmp_path.glob("out/_manifests/*"))
    done = run_job("--input", str(tmp_path / "nowhere"), "--output", str(tmp_path / "out"))
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr == f"error: {tmp_path}/nowhere does not exist; check the path.\n"


def published(output: str) -> tuple[int, int]:
    """The generation that readers see, and its records."""
    table = Table(open_storage(output)).current()
    assert table is not None
    return table.generation, table.records


def test_images_are_replaced_only_if_asked_and_by_one_writer_that_saw_all_files(
    spark: SparkSession, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, output = put({"a/1.jpg": encoded()}), str(tmp_path / "out")
    check_receipts, in_order = writing.check_receipts, writing._in_final_order

    def publish_another_first(*arguments: Any) -> None:
        monkeypatch.setattr(writing, "check_receipts", check_receipts)
        write_images(spark, str(root), output)
        check_receipts(*arguments)

    monkeypatch.setattr(writing, "check_receipts", publish_another_first)
    with pytest.raises(PublishConflict, match="published to .* first; this run published nothing"):
        write_images(spark, str(root), output)
    assert published(output) == (1, 1)
    with pytest.raises(InputError, match="/out exists already; choose another directory, or the mode overwrite"):
        write_images(spark, str(root), output)
    put({"b/2.jpg": encoded(colour=TEAL)})
    monkeypatch.setattr(writing, "_in_final_order", lambda files, n: in_order(files.where("path != 'b/2.jpg'"), n))
    with pytest.raises(AccountingError, match="has 2 files, but 1 were written and 0 cannot be read; nothing was"):
        write_images(spark, str(root), output, mode="overwrite")
    assert published(output) == (1, 1)
    monkeypatch.setattr(writing, "_in_final_order", in_order)
    report = write_images(spark, str(root), output, mode="overwrite")
    assert published(output) == (report.generation, report.images) == (2, 2)
    monkeypatch.chdir(root)
    for output in (f"{root}/records", "records", "../photos [1]/records/", f"file://{root}/records", "."):
        with pytest.raises(UsageError, match="is inside .*, where it would be a class; write to another directory"):
            write_images(spark, str(root), output)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (encoded("JPEG", "RGB"), Size(4, 6, 3)),
        (encoded("JPEG", "L", colour=9), Size(4, 6, 1)),
        (encoded("JPEG", "CMYK", colour=(1, 2, 3, 4)), Size(4, 6, 3)),
        (
            encoded("JPEG", "RGB", exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"),
            Size(4, 6, 3),
        ),
        (encoded("JPEG", "RGB", progressive=True), Size(4, 6, 3)),
        (encoded("PNG", "RGB"), Size(4, 6, 3)),
        (encoded("PNG", "RGBA", colour=(1, 2, 3, 4)), Size(4, 6, 4)),
        (encoded("PNG", "L", colour=9), Size(4, 6, 1)),
        (encoded("PNG", "LA", colour=(9, 9)), Size(4, 6, 2)),
        (encoded("PNG", "1", colour=1), Size(4, 6, 1)),
        (encoded("PNG", "I;16", colour=999), Size(4, 6, 1)),
        (encoded("PNG", "P", colour=1), Size(4, 6, 3)),
        (encoded("PNG", "P", colour=1, transparency=0), Size(4, 6, 4)),
    ],
    ids="jpeg grey-jpeg cmyk turned progressive png rgba grey grey-alpha one-bit 16-bit palette clear-palette".split(),
)
def test_a_size_is_that_of_what_tensorflow_decodes(content: bytes, expected: Size) -> None:
    assert size_of(content) == size_of(memoryview(content)) == expected
    assert tuple(tf.io.decode_image(content).shape) == (expected.height, expected.width, expected.depth)


def test_a_photograph_with_a_second_picture_in_it_is_a_jpeg() -> None:
    out = io.BytesIO()
    first, second = Image.new("RGB", (6, 4), BLUE), Image.new("RGB", (3, 2), TEAL)
    first.save(out, "MPO", save_all=True, append_images=[second])
    assert size_of(out.getvalue()) == Size(4, 6, 3)
    assert tf.io.decode_jpeg(out.getvalue()).shape == (4, 6, 3)


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "^is empty$"),
        (noise("PNG")[:60], "^is damaged"),
        (noise("JPEG")[:100], "^is damaged|is no JPEG"),
        (flipped(noise("PNG"), 2000), "^is damaged .*(CRC|checksum)"),
        (encoded("PNG", "1", (10_000, 9_000), 0), "^has 10,000 by 9,000 pixels, more than 89,478,485$"),
        (encoded("PNG", "1", (20_000, 10_000), 0), "^has more than 178,956,970 pixels$"),
    ],
    ids="empty cut-png cut-jpeg checksum large huge".split(),
)
def test_an_unreadable_image_says_why(content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableImage, match=reason):
        size_of(content)


def run_job(*arguments: str) -> Result:
    """The job, called in this process, whose Spark session it takes."""
    job = runpy.run_path(str(PROJECT / "jobs/images_to_tfrecord.py"))["images"]
    app = typer.Typer()
    app.command()(job)
    return CliRunner().invoke(app, list(arguments))


def test_the_job_prints_the_manifest_and_a_summary(spark: SparkSession, put: Put, tmp_path: Path) -> None:
    root = put({"a/1.jpg": encoded(), "a/2.jpg": b"text", "b/1.png": encoded("PNG"), "notes.txt": b"x"})
    skip = ("--unreadable", "skip", "--max-unreadable-rate", "0.4", "--validation", "0")
    done = run_job("--input", str(root), "--output", str(tmp_path / "out"), *skip)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"{tmp_path}/out/_manifests/00000001.json\n"
    assert len(json.loads(Path(done.stdout.strip()).read_text())["shards"]) == 1
    output = " ".join(done.stderr.split())
    assert "Published 2 images of 2 classes in 1 shard(s) to" in output
    assert "0 a 1 0 1 b 1 0 all 2 0" in output
    assert (
        "1 file(s) cannot be read and were skipped, such as a/2.jpg is not a JPEG or PNG; it begins with b'text'"
        in output
    )
    assert "1 file(s) are in no class folder and were skipped, such as notes.txt" in output
