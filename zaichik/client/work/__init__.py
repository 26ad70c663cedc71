"""Shared names: reading a topic as one of several workers (SHR).

| file | idea |
| --- | --- |
| `subscription` | what a program iterates over, and what happens when it leaves |
| `message` | one message: its number, its time, and what may be said of it |
| `verdict` | what is said of a message, and what the end of a block says |
| `settling` | what the program has; verdicts gather, and are sent together |
| `inbox` | what has arrived, in any order, and what is named after a lost connection |
| `dead` | the dead of a name: listed, revived, forgotten |
"""
