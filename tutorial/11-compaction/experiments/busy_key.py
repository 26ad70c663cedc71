"""A window of 4, and a key that is heard every 3, on a clock of our own.

Run it after "Type: a set".
"""

from settings import WINDOW_MS
from topics import Topic

topic = Topic()
topic.configure({WINDOW_MS: 4})
for second in range(0, 16, 3):
    _, dropped = topic.publish([(b"door", b"ring")], second * 1000)
    print(f"at {second:2}:", "dropped" if dropped else "stored")
