"""A first configuration for some inputs: looks at samples of them, guesses, and writes each guess with its reason.

::

    look.py                 what a person names, as tables
    places.py               files, directories, paths that name the day
    text.py  columnar.py    samples of JSON lines and CSV; of Parquet, ORC and tables of the catalog
    tables.py  times.py     a sample as columns, and how they are read as times
    words.py                what names say
    links.py                which columns share keys, by their values
    followers.py            logs of what followed
    flags.py                labels of the row
    roles.py                which input is the log, and what its columns are
    outcomes.py             which columns are known only after the impression
    zones.py                in which zone days begin and times without one lie
    features.py             what a column may become
    draft.py                the configuration as entries with reasons; drafting.py has what its sections share
    impressions.py  labels.py  around.py  counted.py    sections: what is shown, labels, tables around, counts and histories
    entries.py              entries as commented YAML
"""

from ctr_samples.starter.draft import Draft, draft
from ctr_samples.starter.entries import as_yaml
from ctr_samples.starter.look import look_at
from ctr_samples.starter.roles import Told

__all__ = ["Draft", "Told", "as_yaml", "draft", "look_at"]
