"""Bytes that nobody means, by the million: for our decoder and MQTT's, and for a
broker with several clients.

    python -m tests.fuzz --inputs 1000000 --seed 7 decoder

Every input follows from the seed and its number, so a run can be repeated. What fails is made
smaller as long as it still fails, and printed together with the command that shows it again.
"""
