"""Lists of the last actions of a user, or of another key, before each impression.

join.py     which actions an impression sees
lists.py    builds the lists, on executors
needed.py   which actions of a finished day later days may need
"""
