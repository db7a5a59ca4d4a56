"""Attribute actions to impressions and reduce them to labels. Labels look forward, features look backward.

plans.py         labels with inherited values filled in
events.py        actions in a log; impressions and actions as rows of one frame
labelling.py     stages in which they meet
attribution.py   attribution of each action to at most one impression; reduction of actions to a label
counts.py        counts of actions, orphans and delays; masks that say whether labels are final; clock offset of actions
"""
