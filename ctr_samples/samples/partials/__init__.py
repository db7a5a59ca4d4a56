"""Partial results of finished days, kept from run to run, so that a window of thirty days reads one day of logs.

A partial has what each key did in each step of a day's log (:func:`~ctr_samples.samples.views.aggregates.steps_of`), and the
totals of each day. A run needs steps only where a window begins or ends during its day; of the days between, totals do. Put
together, these are rows like those that the log itself gives, so the windows count the same::

    resolution.py   which days are needed step by step, and of which totals are enough
    writing.py      from the log of a day to the files of its partial
    reading.py      from the files of many days to steps
    kept.py         the partials of one run: those that are there, and those that it makes
"""

from ctr_samples.samples.partials.kept import Partials, where_counted

__all__ = ["Partials", "where_counted"]
