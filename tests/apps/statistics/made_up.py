"""Statistics of a topic that never was."""

from zaichik.apps.statistics.truth import Statistics

MINUTE = 60_000_000


def row(window_us, kept, differing=0, delayed=0, winner="first"):
    return {
        "topic": "t",
        "window_us": window_us,
        "winner": winner,
        "messages": 1000,
        "bytes": 2000,
        "kept": kept,
        "kept_bytes": 2 * kept,
        "ratio": kept / 1000,
        "differing": differing,
        "delayed": delayed,
        "delay_us": delayed * 2 * MINUTE,
        "unseen": differing - delayed,
        "max_delay_us": 9 * MINUTE if delayed else 0,
    }


def statistics(*what_if, topic="t"):
    account = {
        "topic": topic,
        "published": 1000,
        "stored": 1000,
        "compacted": 0,
        "bytes": 2000,
        "stored_bytes": 2000,
        "compacted_bytes": 0,
        "ratio": 1.0,
        "windows": 1000,
        "per_window": 1.0,
        "differing": 0,
        "unknown": 0,
        "superseded": 0,
    }
    hot = [{"key": b"<b>&\xff", "published": 500, "share": 0.5, "stored": 500, "bytes": 9}]
    return Statistics(topic, account, list(what_if), hot)
