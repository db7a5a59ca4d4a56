"""The user's last actions before each impression, as lists.

join.py     which actions an impression sees
chunks.py   what is carried from one chunk of a user's actions to the next
"""
