"""Write libsvm or libfm text as TFRecords: spark-submit jobs/libsvm_to_tfrecord.py --input PATH --output DIRECTORY.

Exit codes: 0 published; 2 usage; 3 refused input; 4 another writer was first; 5 state of the publish unknown; 1 anything else.
"""

import typer

from ctr_samples.cli import libsvm

if __name__ == "__main__":
    typer.run(libsvm)
