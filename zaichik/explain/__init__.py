"""What went wrong, and what to do about it, in words: of an error's code, for `zaichik explain`."""
