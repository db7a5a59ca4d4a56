"""Partial results of finished days, kept between runs, so that a thirty-day window reads only one day of logs.

For a counted view, a partial holds the counts of each key in each step of a day's log
(:func:`~ctr_samples.samples.views.aggregates.steps_of`), and daily totals. A run needs steps only for days on which a
window begins or ends; totals suffice for the days between. For a history, a partial holds the actions that later days
may need (``samples/histories.py``), and for an event table, the rows that can still match. Together these rows
are equivalent to the log, so windows, histories and joins give the same results::

    kept.py         partials of one run, both existing and newly built
    steps.py        what a partial has: steps of a counted view, actions of a history, rows of a table; and its files
"""

from ctr_samples.samples.partials.kept import Partials, where_kept

__all__ = ["Partials", "where_kept"]
