"""Logs that no broker is using: checked byte by byte, and repaired."""
