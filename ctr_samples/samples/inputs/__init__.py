"""Input data of a run.

sources.py                    a source over the required days, as a lazy DataFrame
listing.py                    list of the existing files
real_files.py                 each real file on a disk once, regardless of links to it
file_columns.py               columns of Parquet and ORC files
log_days.py                   log day of a row
csv_lines.py, json_lines.py   text lines as columns
databases.py                  database tables, over JDBC
lake_tables.py                Iceberg and Delta tables, and the versions to read
clocks.py                     configured times, and the rows that a run needs according to them
day_columns.py                table column with the day of a row
malformed.py                  malformed lines: their number, and what is wrong with them
watched.py                    all sources of a run, with their watches; lists exploded to one row per element
"""
