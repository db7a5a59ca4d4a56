"""Write folders of images as TFRecords: spark-submit jobs/images_to_tfrecord.py --input DIRECTORY --output DIRECTORY.

The input has one folder for each class. Exit codes: 0 published; 2 usage; 3 refused input; 4 another writer was first; 5 state
of the publish unknown; 1 anything else.
"""

import typer

from ctr_samples.cli import images

if __name__ == "__main__":
    typer.run(images)
