"""What a run reads.

sources.py                    a source over the days that are needed, as a lazy DataFrame
listing.py                    which files exist
real_files.py                 each real file on a disk once, whatever links lead to it
file_columns.py               columns of Parquet and ORC files
log_days.py                   day of the log that a row lies in
csv_lines.py, json_lines.py   text lines as columns
databases.py                  database tables, over JDBC
lake_tables.py                Iceberg and Delta tables, and the versions in which they are read
clocks.py                     configured times, and by them the rows that a run needs
day_columns.py                table column with the day of a row
malformed.py                  malformed lines: their number, and what is wrong with them
watched.py                    all sources of a run, with their watches; lists exploded to one row per element
"""
