"""Mutants: the core with one small change each, which some test must notice. ``make mutants`` runs them.

mutations.py   changes of Python code
core.py        parts of the core with their modules and tests
mutants.csv    results so far; `survived the quick tests`: the thorough ones were not run

A mutant that survives is equal to the original, or changes what no test holds, such as the size of a batch.
"""
