"""The sections themselves, a file for each kind of error."""
