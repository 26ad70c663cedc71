"""What a release consists of: its files are built, and a wrong one is refused."""
