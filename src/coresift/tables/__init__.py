"""Tables: anything tabular, in and out, by row number or by id.

One set of rules for all of them:

- A table is a Parquet, Arrow, Feather, CSV or JSONL file, a folder, pattern or list of such files, a folder that
  `Dataset.save_to_disk` wrote, a dict of columns, a `datasets.Dataset`, or any object with the Arrow capsule
  (`__arrow_c_stream__`: pandas, polars, duckdb, pyarrow).
- Names of columns differ. The index of a pandas frame is a separate column and never a feature.
- Texts are UTF-8; whatever comes from outside is validated before it is used.
- A null means that there is no value. In CSV, an empty cell is a null, and a quoted empty cell is an empty text.
- Ids are whole numbers or texts, other types as text; they are compared as texts, so 7, "7" and 7.0 are one.
"""

from coresift.tables.opening import is_tabular, open_table
from coresift.tables.table import Table, listed
from coresift.tables.writing import write_bytes, write_table

__all__ = ["Table", "is_tabular", "listed", "open_table", "write_bytes", "write_table"]
