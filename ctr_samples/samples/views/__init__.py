"""Feature views: facts that were true before an impression and known by then.

rows.py         keys of a source, and its rows of key, event time, available time and payload
features.py     rows of other views as of each counted action; features that are computed over the rows of a view
aggregates.py   counts, sums, distinct values and rates over windows, as such rows
as_of/          the join
joiner.py       all views of a configuration, planned and joined
counts.py       number of samples that matched a row, and the age of the matched rows
"""
