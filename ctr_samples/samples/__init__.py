"""Path of a row from the sources to the shards: each step maps DataFrame to DataFrame, and a sink ends it. In order:

inputs/         files, tables and databases as rows; malformed lines
impressions.py  one row per article shown, with a stable id
labels/         actions, attributed to impressions
views/          feature tables and counts from logs, joined as of each impression
partials/       what views and histories need of finished days, kept from run to run
histories/      the user's last actions before each impression
sampling.py     split, and down-sampling of negatives
phases.py       what is joined and made before samples move to their final place, and what after
features/       column expressions in the types of the contract
watches/        side counters, and the leak canary
builder.py      all of it as one plan
earlier.py      features from the shards of an earlier generation
executors.py    check that tasks can write where a run writes
sink.py         shards, and one receipt per task
period.py       the run date as two instants
training_rows.py    rows on which vocabularies and moments are fitted
"""
