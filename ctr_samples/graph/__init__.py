"""What each part of a configuration reads of the others, found without Spark. Everyone may import it.

sql_names.py   names in a SQL expression
parts.py       parts of a configuration, and what each reads
"""

from ctr_samples.graph.parts import Graph, log_names, meet
from ctr_samples.graph.sql_names import SqlName, dotted, names_in

__all__ = ["Graph", "SqlName", "dotted", "log_names", "meet", "names_in"]
