"""Partial results of finished days, kept from run to run, so that a window of thirty days reads one day of logs.

Of a view that is counted, a partial has what each key did in each step of a day's log
(:func:`~ctr_samples.samples.views.aggregates.steps_of`), and the totals of each day. A run needs steps only where a window
begins or ends during its day; of the days between, totals do. Of a history, a partial has the actions that later days can need
(``samples/histories/needed.py``), and of a table of events the rows that can still win. Put together, these are rows like those
that the log itself gives, so that windows, histories and joins find the same::

    kept.py         the partials of one run: those that are there, and those that it makes
    steps.py        what is kept of a view that is counted, and which days are needed step by step
    actions.py      what is kept of a history
    table_rows.py   what is kept of a view of events
    files.py        from rows to files, and back
"""

from ctr_samples.samples.partials.kept import Partials, where_kept

__all__ = ["Partials", "where_kept"]
