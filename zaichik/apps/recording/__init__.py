"""Topics as Parquet files: the recorder, the files, and the conversion of batches to columns."""
