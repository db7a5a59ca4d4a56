"""Attribute actions to impressions and reduce them to labels. Labels look forward, features look backward.

actions.py       actions in a log
plans.py         labels with inherited values filled in
events.py        impressions and actions as rows of one frame
attribution.py   attribution of each action to at most one impression
reduction.py     reduction of actions to a label
counts.py        counts of actions, orphans and delays, collected as rows pass
shifts.py        clock offset of action times
"""

from ctr_samples.samples.labels.actions import ACTION, actions_by_keys, actions_near, actions_of, key_of_action
from ctr_samples.samples.labels.attribution import DELAY, IS_ACTION, ORPHAN, attribute, attribute_rows
from ctr_samples.samples.labels.counts import LabelsWatch, delay_ends
from ctr_samples.samples.labels.events import events_of, of_shown
from ctr_samples.samples.labels.plans import (
    LabelPlan,
    impression_reach,
    label_columns,
    label_reach,
    longest_skew,
    longest_window,
    plan_label,
    plan_labels,
    rows_among,
)
from ctr_samples.samples.labels.reduction import row_values

__all__ = [
    "ACTION",
    "DELAY",
    "IS_ACTION",
    "ORPHAN",
    "LabelPlan",
    "LabelsWatch",
    "actions_by_keys",
    "actions_near",
    "actions_of",
    "attribute",
    "attribute_rows",
    "delay_ends",
    "events_of",
    "impression_reach",
    "key_of_action",
    "label_columns",
    "label_reach",
    "longest_skew",
    "longest_window",
    "of_shown",
    "plan_label",
    "plan_labels",
    "row_values",
    "rows_among",
]
