"""What a topic looks like: from the broker's numbers to a picture, without I/O or a clock.

A *reading* (`topic_state`) is what `describe` said at one moment. `memory` keeps what one reading
cannot show: what became of messages that are gone, rates, trends. `picture` turns both into marks,
each a range of offsets; `text` draws them, and so does the page of `zaichik web`.
"""
