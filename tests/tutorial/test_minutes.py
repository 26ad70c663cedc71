"""The minutes of a chapter are counted in its text."""

import pytest
from minutes import Amounts, amounts

TEXT = """\
Three words here.

**New file `hello.py`:**

```python
def hello():

    print("hello")
```

**In `hello.py`, change `hello`:**

```diff
 def hello():
-    print("hello")
+    print("hello,")
+
+    print("world")
```

**From `experiments/hello.py`:**

```python
import hello
```

```console
$ python3 hello.py
hello
$ python3 hello.py
hello
```
"""


def test_what_is_read_typed_and_run_is_counted():
    """Neither the lines of a change that stay or go are typed, nor empty ones."""
    counted = amounts(TEXT)
    assert (counted.shown_lines, counted.typed_lines, counted.commands) == (1, 4, 2)
    assert counted.words == 3 + 3 + 4 + 2  # with the captions


@pytest.mark.parametrize(
    ("done", "minutes"),
    [
        (Amounts(1000, 0, 0, 0), 5),
        (Amounts(0, 80, 0, 0), 10),
        (Amounts(0, 0, 30, 0), 10),
        (Amounts(0, 0, 0, 15), 10),
        (Amounts(1000, 0, 1, 0), 10),
        (Amounts(500, 20, 15, 3), 15),
    ],
)
def test_minutes_are_rounded_up_to_five(done, minutes):
    assert done.minutes == minutes
