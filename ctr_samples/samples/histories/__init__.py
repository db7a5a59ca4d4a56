"""Lists of the last actions of a user, or of another key, before each impression.

join.py     selects the actions visible to an impression, and those of a finished day that later days may need
lists.py    builds the lists, on executors
"""
