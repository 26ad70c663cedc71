"""What a release consists of: its files are built, and each is refused if it isn't what it must be."""
