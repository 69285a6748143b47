"""Read and write tables, by row number or by id.

The same rules hold for every table:

- A table is a Parquet, Arrow, Feather, CSV or JSONL file, a folder, pattern or list of such files, a folder that
  `Dataset.save_to_disk` wrote, a dict of columns, a `datasets.Dataset`, or any object with the Arrow capsule
  (`__arrow_c_stream__`: pandas, polars, duckdb, pyarrow).
- Column names are distinct. The index of a pandas frame is a separate column and never a feature.
- Text is UTF-8. Data from outside is validated before it is used.
- Null means a missing value. In CSV, an empty cell is null, and a quoted empty cell is an empty string.
- Ids are integers or strings; other types are converted to strings. Ids are compared as strings, so 7, "7" and 7.0
  are the same id.
"""

from coresift.tables.opening import is_tabular, open_table
from coresift.tables.table import Table, listed
from coresift.tables.writing import write_bytes, write_table

__all__ = ["Table", "is_tabular", "listed", "open_table", "write_bytes", "write_table"]
