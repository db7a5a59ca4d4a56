"""Check that a file is a complete JPEG or PNG, and return its size.

Runs on executors. The only module that uses Pillow.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass

from PIL import Image, UnidentifiedImageError

from ctr_samples.errors import CtrSamplesError

FORMATS = ("JPEG", "PNG")
MOST_PIXELS = 89_478_485
"""Pillow's own limit against decompression bombs, set here to be the same in all Pillow releases."""

_CHANNELS = {"1": 1, "L": 1, "I": 1, "I;16": 1, "I;16B": 1, "LA": 2, "RGB": 3, "CMYK": 3, "RGBA": 4}
"""Number of channels that ``tf.io.decode_jpeg`` and ``decode_png`` return by default."""


class UnreadableImage(CtrSamplesError):
    """Raised for a file that is not a complete JPEG or PNG, with the reason as the message. Callers count it."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of an image as stored. Ignores any orientation in the EXIF data, as TensorFlow does."""

    height: int
    width: int
    depth: int


def size_of(content: bytes | memoryview) -> Size:
    """Decode an image to check it, and return its size. Raises UnreadableImage on failure. Holds one decoded image in
    memory.
    """
    if not len(content):
        raise UnreadableImage("is empty")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as for damaged EXIF data, which is not used here
        try:
            with _opened(content) as image:
                size = Size(image.height, image.width, _channels(image))
                image.verify()  # the checksums of a PNG, which decoding alone ignores
            with _opened(content) as image:
                image.load()
        except (UnreadableImage, MemoryError):
            raise
        except Exception as error:  # Pillow may raise almost anything for damaged files
            raise UnreadableImage(f"is damaged ({str(error) or type(error).__name__})") from error
    return size


def _opened(content: bytes | memoryview) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError:
        raise UnreadableImage(f"is not a JPEG or PNG; it begins with {bytes(content[:8])!r}") from None
    except Image.DecompressionBombError:
        raise UnreadableImage(f"has more than {2 * MOST_PIXELS:,} pixels") from None
    if image.width * image.height > MOST_PIXELS:
        raise UnreadableImage(f"has {image.width:,} by {image.height:,} pixels, more than {MOST_PIXELS:,}")
    return image


def _channels(image: Image.Image) -> int:
    if image.mode == "P":
        return 4 if "transparency" in image.info else 3
    if image.mode not in _CHANNELS:
        raise UnreadableImage(f"has the colour mode {image.mode}, which TensorFlow does not decode")
    return _CHANNELS[image.mode]
