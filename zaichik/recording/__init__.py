"""Topics as Parquet files: the recorder, the files, and how a batch becomes columns."""
