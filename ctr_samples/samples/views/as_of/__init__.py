"""As-of join: adds to each impression the last row of a feature view that was true before it and known by then.

A row is visible to an impression iff ``event_time < impression_time`` (``<=`` if inclusive) and ``available_time <=
impression_time``. The visible row with the greatest (event_time, available_time, sequence, content) matches, if its
event time is ``>= impression_time - ttl`` and it is not a tombstone. A row with ``valid_to`` is visible until
``valid_to < impression_time`` (``<=`` if inclusive) and ``closed_available <= impression_time``. Only rows of the
latest visible snapshot of a snapshot view count. A join always returns one output row per impression::

    joining.py     impressions and rows brought together, by a shuffle or a broadcast
    matching.py    the row that an impression sees; rows that end, split so that one row per key is visible at a time
    planning.py    shuffle or broadcast for each view, as a value; its rows, ready to be joined; keys too hot for one task
"""
