"""The last actions of a user, or of another key, before each impression, as lists.

join.py     which actions an impression sees
chunks.py   what is carried from one chunk of a key's actions to the next
needed.py   which actions of a finished day later days can need
"""
