"""Fairness between clients: of processor time (`scheduler`), of memory (`prices`, `budget`) and of tables (`quota`)."""
