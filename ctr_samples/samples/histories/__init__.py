"""Lists of the last actions of a user, or of another key, before each impression.

join.py     selects the actions visible to an impression
lists.py    builds the lists, on executors
needed.py   selects the actions of a finished day that later days may need
"""
