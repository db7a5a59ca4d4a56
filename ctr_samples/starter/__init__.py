"""Draft a first configuration: sample the inputs, infer their roles, and state a reason for each choice.

::

    look.py                 sampling of the inputs: Parquet, ORC, catalog tables
    places.py  text.py      files, directories and dated paths; samples of JSON lines and CSV
    tables.py  times.py     sampled columns, numbers and times that are written as text
    words.py                meaning of names
    links.py                facts by values: shared keys, what determines what, logs of later actions
    questions.py            what is asked, with candidates and evidence, and who answers
    log.py                  the log of what was shown: its labels, and columns known only after the impression
    roles.py                its choice, and the roles of its columns
    zones.py                time zone of days and of local times
    features.py             features from columns
    draft.py                configuration entries with reasons; drafting.py has the shared state
    impressions.py          sections: impressions and labels
    around.py               sections: joined tables, counts and histories
    entries.py              entries as commented YAML
"""

from ctr_samples.starter.draft import Draft, draft
from ctr_samples.starter.entries import as_yaml
from ctr_samples.starter.look import look_at
from ctr_samples.starter.questions import Answers, Candidate, Question

__all__ = ["Answers", "Candidate", "Draft", "Question", "as_yaml", "draft", "look_at"]
