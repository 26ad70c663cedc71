"""A broker looked at again and again: what `zaichik watch` and `zaichik web` show."""
