"""What a run reads.

sources.py                    a source over the days that are needed, as a lazy DataFrame
listing.py                    which files are there
real_files.py                 each real file on a disk once, whatever links lead to it
file_columns.py               the columns of Parquet and ORC files
log_days.py                   the day of the log that a row lies in
csv_lines.py, json_lines.py   lines of text as columns
databases.py                  tables of databases, by JDBC
lake_tables.py                Iceberg and Delta tables, and the versions in which they are read
day_columns.py                the column of a table that says which day a row is of
malformed.py                  malformed lines: counted, and what is wrong with them
watched.py                    all sources of a run, with their watches; lists as rows, one for each element
"""
