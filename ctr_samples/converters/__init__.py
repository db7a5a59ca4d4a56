"""From other formats to TFRecords.

images/     folders of images, one for each class
libsvm.py   libsvm and libfm text
"""
