"""Partial results of finished days, kept from run to run, so that a window of thirty days reads one day of logs.

For a counted view, a partial holds what each key did in each step of a day's log
(:func:`~ctr_samples.samples.views.aggregates.steps_of`), and the totals of each day. A run needs steps only where a
window begins or ends during its day; totals suffice for the days between. For a history, a partial holds the actions
that later days may need (``samples/histories/needed.py``), and for a table of events the rows that can still win.
Together these rows look like those from the log itself, so windows, histories and joins find the same::

    kept.py         partials of one run: existing ones, and those that it makes
    steps.py        what is kept of a counted view, and which days are needed step by step
    actions.py      what is kept of a history
    table_rows.py   what is kept of a view of events
    files.py        from rows to files, and back
"""

from ctr_samples.samples.partials.kept import Partials, where_kept

__all__ = ["Partials", "where_kept"]
