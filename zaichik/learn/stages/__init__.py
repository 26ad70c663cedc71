"""The stages, in order.

Each is a file: its text, then its checks. The last file of a stage is imported.
"""

from zaichik.learn.stage import Check, Stage
from zaichik.learn.stages import (
    s00_listen,
    s01_one_frame,
    s02_split_and_glued,
    s03_bad_frame,
    s04_two_clients,
    s05_publish,
    s06_same_order,
    s07_topics,
    s08_unsubscribe,
    s09_exactly,
    s10_lag,
    s11_times,
    s12_compaction,
    s13_stuck_reader,
    s14_ends,
    s15_history,
    s16_table_killed,
    s17_following,
    s18_history,
)

_FILES = (
    s00_listen,
    s01_one_frame,
    s02_split_and_glued,
    s03_bad_frame,
    s04_two_clients,
    s05_publish,
    s06_same_order,
    s07_topics,
    s08_unsubscribe,
    s09_exactly,
    s10_lag,
    s11_times,
    s12_compaction,
    s13_stuck_reader,
    s14_ends,
    s15_history,
    s16_table_killed,
    s17_following,
    s18_history,
)
STAGES: tuple[Stage, ...] = tuple(file.STAGE for file in _FILES)
CHECKS: dict[str, Check] = {check.id: check for stage in STAGES for check in stage.checks}
