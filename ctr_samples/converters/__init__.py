"""From other formats to TFRecords: image folders, LIBSVM text."""
