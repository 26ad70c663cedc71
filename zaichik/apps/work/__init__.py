"""Work: a command of yours for each message of a shared name, so many at a time.

- `command.py`: the command's words, with what the message says in their places
- `job.py`: one process, from its start to its end
- `session.py`: the processes that a job has started, and how all of them are ended
- `result.py`: what an exit code means for the message
- `pool.py`: so many jobs at a time, and how they end
- `topic.py`: the topic of the messages: that it loses none, or what it can lose
- `queue_state.py`: what is left to do, and what hinders
- `exporting.py`: copies what has failed too often to another topic
"""
