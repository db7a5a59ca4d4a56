"""Command line. Commands import dependencies lazily, so that ``ctr-samples --help`` loads neither Spark nor TensorFlow.

app.py        program with all commands
generate.py   generate, config
init.py       init
infer.py      infer
fit.py        fit
explain.py    explain
preview.py    preview
status.py     status, trends, partials
train.py      train
simulate.py   simulate
convert.py    images, libsvm
demo.py       demo, where
pack.py       pack
report.py     report, compare
served.py     compare-served
outputs.py    verify, show, paths, history, clean, rollback
forget.py     forget
messages.py   errors as sentences and exit codes
terminal.py   what a terminal shows: text as it is, tables that fit
"""

from ctr_samples.cli.app import app, main
from ctr_samples.cli.convert import images, libsvm
from ctr_samples.cli.fit import fit
from ctr_samples.cli.generate import generate
from ctr_samples.cli.messages import errors_in_words
from ctr_samples.cli.simulate import simulate
from ctr_samples.cli.train import train

__all__ = ["app", "errors_in_words", "fit", "generate", "images", "libsvm", "main", "simulate", "train"]
