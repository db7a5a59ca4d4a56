"""The last actions of a user, or of another key, before each impression, as lists.

join.py     which actions an impression sees
lists.py    finds the lists, on executors
needed.py   which actions of a finished day later days can need
"""
