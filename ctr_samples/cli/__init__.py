"""The command line. Each command imports what it needs, so that ``ctr-samples --help`` starts no Spark and no TensorFlow.

app.py        all commands in one program
generate.py   generate, config
fit.py        fit
explain.py    explain
preview.py    preview
status.py     status
state.py      state
report.py     report, compare
outputs.py    verify, show, paths, history, clean, rollback
messages.py   errors as sentences and exit codes
"""

from ctr_samples.cli.app import app, main
from ctr_samples.cli.fit import fit
from ctr_samples.cli.generate import generate
from ctr_samples.cli.messages import errors_in_words

__all__ = ["app", "errors_in_words", "fit", "generate", "main"]
