"""Logs that no broker uses: looked at byte by byte, and repaired."""
