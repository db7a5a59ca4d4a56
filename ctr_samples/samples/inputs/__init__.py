"""Input data of a run.

sources.py       a source over the required days, as a lazy DataFrame
listing.py       list of the existing files, each found once regardless of links
file_columns.py  columns of Parquet and ORC files
log_days.py      day of a row: of its log, or of a column of its table; rows that repeat others
text_lines.py    CSV and JSON lines as columns, in any encoding, and bytes that are no text
databases.py     database tables, over JDBC; versions of Iceberg and Delta tables
clocks.py        configured times, and the selection of rows by them
malformed.py     malformed lines: counts and explanations
watched.py       all sources of a run, with their watches; lists exploded to one row per element
"""
