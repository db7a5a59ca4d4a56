"""Draft a first configuration: sample the inputs, infer their roles, and state a reason for each choice.

::

    look.py                 sampling of the inputs
    places.py               files, directories, dated paths
    text.py  columnar.py    samples of JSON lines and CSV; of Parquet, ORC and catalog tables
    tables.py  times.py     sampled columns, and timestamp parsing
    words.py                meaning of names
    links.py                columns with shared keys
    followers.py            logs of later actions
    flags.py                labels in the impression row
    roles.py                choice of the log, and roles of its columns
    outcomes.py             columns known only after the impression
    zones.py                time zone of days and of local times
    features.py             features from columns
    draft.py                configuration entries with reasons; drafting.py has the shared state
    impressions.py  labels.py  around.py  counted.py    sections: impressions, labels, joined tables, counts, histories
    entries.py              entries as commented YAML
"""

from ctr_samples.starter.draft import Draft, draft
from ctr_samples.starter.entries import as_yaml
from ctr_samples.starter.look import look_at
from ctr_samples.starter.questions import Answers, Candidate, Question

__all__ = ["Answers", "Candidate", "Draft", "Question", "as_yaml", "draft", "look_at"]
