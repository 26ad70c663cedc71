"""Why a message did not arrive, as a list of verdicts.

And what an error means: all of `zaichik explain`, in words.
"""
