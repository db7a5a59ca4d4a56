"""How a row travels from the sources to the shards: DataFrame in, DataFrame out, and a sink at the end. In order:

inputs/         files, tables and databases as rows; malformed lines
impressions.py  one row for each article shown, with a stable id
labels/         actions, attributed to impressions
views/          feature tables and what is counted from logs, joined as of each impression
partials/       what views and histories need of finished days, kept from run to run
histories/      the user's last actions before each impression
sampling.py     the split, and the down-sampling of negatives
phases.py       what is joined and made before samples move to their final place, and what after
features/       column expressions in the types of the contract
watches/        counts taken on the side, and the leak canary
builder.py      all of it as one plan
earlier.py      features from the shards of an earlier generation
executors.py    whether tasks can write where they will
sink.py         shards, one receipt for each task
period.py       the run date as two instants
training_rows.py    the rows that vocabularies and moments are fitted on
"""
