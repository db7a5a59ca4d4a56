"""Makes log.parquet and items.parquet from the CSV files of the Open Bandit Dataset (small version, ``random/all``).

Usage: python data/open_bandit/make_parquet.py DIRECTORY, where DIRECTORY holds all.csv and item_context.csv; both are in the
PyPI package obp 0.5.7, folder obp/dataset/obd/random/all.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent


def log_table(csv: Path) -> pa.Table:
    """One row for each impression; the 80 affinities, nearly all zero, become one list."""
    rows = pd.read_csv(csv, index_col=0)
    affinity = rows.filter(like="user-item_affinity_").to_numpy(np.float32)
    return pa.table(
        {
            "row": pa.array(rows.index, pa.int32()),
            "timestamp": pa.array(pd.to_datetime(rows["timestamp"], utc=True), pa.timestamp("us", "UTC")),
            "item_id": pa.array(rows["item_id"], pa.int32()),
            "position": pa.array(rows["position"], pa.int32()),
            "click": pa.array(rows["click"], pa.int32()),
            "propensity_score": pa.array(rows["propensity_score"], pa.float64()),
            **{f"user_feature_{i}": pa.array(rows[f"user_feature_{i}"]) for i in range(4)},
            "user_item_affinity": pa.array(affinity.tolist(), pa.list_(pa.float32())),
        }
    )


def item_table(csv: Path) -> pa.Table:
    """One row for each of the 80 items."""
    items = pd.read_csv(csv, index_col=0)
    return pa.table(
        {
            "item_id": pa.array(items["item_id"], pa.int32()),
            **{f"item_feature_{i}": pa.array(items[f"item_feature_{i}"]) for i in range(4)},
        }
    )


if __name__ == "__main__":
    source = Path(sys.argv[1])
    pq.write_table(log_table(source / "all.csv"), HERE / "log.parquet", compression="zstd")
    pq.write_table(item_table(source / "item_context.csv"), HERE / "items.parquet", compression="zstd")
