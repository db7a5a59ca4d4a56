"""DataFrame in, DataFrame out, and the sink. The only package that imports pyspark."""
