"""The shell around the broker: sockets that are accepted, greeted, served in turns, and closed. Here is what waits."""
