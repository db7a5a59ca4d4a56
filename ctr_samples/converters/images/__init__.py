"""Image folders to TFRecords: the label is the folder, the record keeps the file's own bytes."""

from ctr_samples.converters.images.report import ImageReport
from ctr_samples.converters.images.writing import write_images

__all__ = ["ImageReport", "write_images"]
