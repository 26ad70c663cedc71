"""An early reader and a late one.

Run it after "Type: in its place".
"""

from experiments.copies import Copy
from tables import Table

topic = Table()
early = Copy(topic)
topic.publish([(b"apple", b"30"), (b"pear", b"45")], 0)
early.read()
topic.publish([(b"apple", b"35")], 0)
early.read()
late = Copy(topic)
late.read()
print("early:", early)
print("late: ", late)
