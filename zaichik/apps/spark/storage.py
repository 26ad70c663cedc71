"""Folders and small files where Spark has its tables: on this machine, in HDFS, in an object store.

A path without a scheme belongs to Spark's *default* file system, which need not be the local one.
Python's own functions would look at the local one all the same, and two halves of a state would lie
in two places. Here everything goes through Hadoop's file systems, as Spark's own reading and
writing does.
"""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from zaichik import ZaichikError

AS_WRITTEN = {"__globPaths__": "false"}
"""Options of `spark.read`, with which a path is a name; else some letters are a pattern: `[{*?`."""


class NoFileSystem(ZaichikError):
    """The session cannot reach Spark's file systems from here."""


class Storage:
    """A folder.

    Args:
        spark: a session with a Java of its own; one of Spark Connect has none.
        folder: a path, or a URI such as hdfs://… or s3a://…

    Raises:
        NoFileSystem: the session is one of Spark Connect.
    """

    def __init__(self, spark: SparkSession, folder: Path | str) -> None:
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise NoFileSystem(
                "a session of Spark Connect cannot keep a state: start the query where Spark's "
                "driver runs"
            )
        self.name = str(folder)
        self._jvm = jvm
        self._files = self._path().getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001 (there is no other way)

    def _path(self, *parts: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(*parts))

    def path(self, *parts: str) -> str:
        """The path of something in the folder, for Spark."""
        return "/".join((self.name, *parts))

    def exists(self, *parts: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._files.exists(self._path(*parts)))

    def read(self, *parts: str) -> str:
        """The text of a file."""
        stream = self._files.open(self._path(*parts))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, text: str, *parts: str) -> None:
        """Make a file that was not there, and the folders it is in.

        It appears when it is complete.
        """
        unfinished = self._path(*parts[:-1], f".{parts[-1]}.unfinished")
        stream = self._files.create(unfinished, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        if not self._files.rename(unfinished, self._path(*parts)):
            raise OSError(f"{self.path(*parts)} cannot be written")

    def names(self, *parts: str) -> list[str]:
        """The names of what is in a folder; none if it is not there.

        Not by a pattern, in which letters of the folder's own path would have a meaning.
        """
        if not self.exists(*parts):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(self._path(*parts))]

    def remove(self, *parts: str) -> None:
        """Delete a folder and all that is in it."""
        self._files.delete(self._path(*parts), True)
