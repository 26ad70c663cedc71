"""An error of zaichik reaches Spark's user as one sentence, without a worker's traceback.

A data source raises its errors in one of Spark's processes. The traceback there becomes the text of
an exception in Java, and that the text of one in the user's Python: a missing topic would be
explained in the fourteenth line.

A worker that finds `SPARK_HIDE_TRACEBACK` in its environment reports the exception alone. Spark's
own setting for it, `spark.sql.execution.pyspark.udf.hideTraceback.enabled`, holds for all errors,
and users need the tracebacks of their own functions. So the variable is set here, when an error
whose sentence says everything is on its way. A worker ends with the first error that it reports, so
nothing else is hidden.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from zaichik import ZaichikError
from zaichik_protocol import Unencodable

_HIDE = "SPARK_HIDE_TRACEBACK"


class BadOption(ZaichikError):
    """An option has a value that is not valid, or there is no such option."""


@contextmanager
def without_traceback() -> Iterator[None]:
    """Makes Spark report an error that leaves the block as its sentence.

    Also a decorator, for what Spark calls.
    """
    try:
        yield
    except (ZaichikError, Unencodable):
        if _is_worker():
            os.environ[_HIDE] = "1"
        raise


def _is_worker() -> bool:
    """Returns whether Spark has started this Python.

    The user's own process and its children keep their tracebacks.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
