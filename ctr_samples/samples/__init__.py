"""Pipeline from sources to shards. In order:

columnar/       stages in Python over Arrow blocks, which Spark shuffles
inputs/         read files, tables and databases; malformed lines
impressions.py  one row per article shown, with a stable id
labels/         actions, attributed to impressions
views/          feature tables and counts from logs, joined as of each impression
partials/       data of finished days that views and histories need, kept between runs
histories.py    the user's last actions before each impression
sampling.py     split, and down-sampling of negatives
requests.py     which impressions form a request
features/       column expressions in the types of the contract
watches/        side counters, and the leak canary
builder.py      the complete plan
earlier.py      features from the shards of an earlier generation
executors.py    check that executors can write to the run's directories
sink.py         the shuffle into the final order; shards, and one receipt per task
period.py       start and end of the run's period
training_rows.py    rows for fitting vocabularies and moments
"""
