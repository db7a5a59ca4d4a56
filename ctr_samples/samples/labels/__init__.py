"""Attribute actions to impressions and reduce them to labels. Labels look forward, features look backward.

actions.py       actions in a log
plans.py         labels with inherited values filled in
events.py        impressions and actions as rows of one frame
labelling.py     stages in which they meet
attribution.py   attribution of each action to at most one impression
masks.py         whether labels are final, and the order of funnels
reduction.py     reduction of actions to a label
counts.py        counts of actions, orphans and delays
shifts.py        clock offset of action times
"""

from ctr_samples.samples.labels.actions import ACTION, actions_near, actions_of, actions_of_logs, key_of_action
from ctr_samples.samples.labels.counts import LabelsWatch, delay_ends
from ctr_samples.samples.labels.events import events_among, events_of
from ctr_samples.samples.labels.labelling import Labelling
from ctr_samples.samples.labels.masks import LabelMasks, mask_facts
from ctr_samples.samples.labels.plans import (
    LabelPlan,
    can_lie_by,
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
    "LabelMasks",
    "LabelPlan",
    "Labelling",
    "LabelsWatch",
    "actions_near",
    "actions_of",
    "actions_of_logs",
    "can_lie_by",
    "delay_ends",
    "events_among",
    "events_of",
    "impression_reach",
    "key_of_action",
    "label_columns",
    "label_reach",
    "longest_skew",
    "longest_window",
    "mask_facts",
    "plan_label",
    "plan_labels",
    "row_values",
    "rows_among",
]
