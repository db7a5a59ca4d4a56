"""The way of a row, from sources to shards. DataFrame in, DataFrame out, and the sink. The rooms in their order:

inputs/         files, tables and databases as rows; malformed lines
impressions.py  one row for each article shown, with a stable id
labels/         actions, attributed to impressions
views/          feature tables and what is counted from logs, joined as of each impression
histories/      the user's last actions before each impression
sampling.py     the split, and the negatives that are left out
features/       column expressions in the types of the contract
watches/        what is counted on the side, and the canary
builder.py      all of it as one plan
sink.py         shards, one receipt for each task
period.py       the run date as two instants
training_rows.py    the rows that vocabularies and moments are fitted on
"""
