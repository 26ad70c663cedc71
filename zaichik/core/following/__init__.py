"""Following topics: `$topics`, the table of the topics that there are (PAT).

`following` keeps it, and gives new topics the time that those who follow need to come. What it
retains is in `topics_table`, and `filtered_reader` reads it for a user.
"""
