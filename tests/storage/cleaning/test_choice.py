"""Which files of a table's log are rewritten."""

from zaichik.storage.cleaning.choice import clean_below, sizes_after, worth_rewriting
from zaichik.storage.segment import HEAD_SIZE, Segment

MOST = 100_000
FOREVER = 2**60


def segment(base, size=50_000, clean=0, stuck=(0, 0)):
    made = Segment("f", base, 1, 0, HEAD_SIZE + size)
    made.clean_below = clean
    made.stuck_below, made.stuck_bytes = stuck
    return made


def chosen(segments, live, below=FOREVER, *, is_full=False):
    """The bases of the files that are chosen; `live` has the live bytes, by the files' bases."""

    def alive(begin, end):
        assert end > begin
        return 0, live.get(begin, 0)

    run = worth_rewriting(segments, below, alive, MOST, is_full=is_full)
    return [segment.base for segment in run]


def test_a_file_is_rewritten_when_half_of_it_is_dead():
    """DUR-10."""
    segments = [segment(0), segment(10), segment(20)]
    assert chosen(segments, {0: 30_000, 10: 30_000}) == []
    assert chosen(segments, {0: 30_000, 10: 20_000}) == [10]


def test_the_last_file_and_those_after_the_checkpoints_stay():
    segments = [segment(0), segment(10), segment(20)]
    assert chosen(segments, {}, below=10) == [0]
    assert chosen(segments, {}, below=0) == []
    assert chosen(segments[:1], {}) == []


def test_a_damaged_file_stays():
    """DUR-7."""
    segments = [segment(0), segment(10), segment(20)]
    segments[0].is_rewritable = False
    assert chosen(segments, {}) == [10]


def test_dead_neighbours_are_made_one_if_they_fit():
    segments = [segment(base) for base in range(0, 60, 10)]
    assert chosen(segments, dict.fromkeys(range(0, 60, 10), 20_000)) == [0, 10, 20, 30]


def test_many_small_neighbours_are_merged_and_a_few_are_not():
    few = [segment(base, 1000) for base in range(8)]
    assert chosen(few, dict.fromkeys(range(8), 900)) == []
    many = [segment(base, 1000) for base in range(9)]
    assert chosen(many, dict.fromkeys(range(9), 900)) == list(range(8))
    large = [segment(base, 20_000) for base in range(9)]
    assert chosen(large, dict.fromkeys(range(9), 19_000)) == []


def test_a_log_that_is_nearly_full_is_rewritten_sooner():
    segments = [segment(0), segment(10)]
    assert chosen(segments, {0: 40_000}) == []
    assert chosen(segments, {0: 40_000}, is_full=True) == [0]


def test_tombstones_that_cannot_go_yet_do_not_make_a_file_worth_it():
    """TAB-5: otherwise it would be rewritten for ever."""
    segments = [segment(0, clean=99), segment(10, stuck=(15, 45_000)), segment(20)]
    segments[0].clean_below = 5
    segments[0].is_rewritable = False
    assert chosen(segments, {0: 50_000, 10: 1000}) == []
    segments[0].clean_below = 15
    assert chosen(segments, {0: 50_000, 10: 1000}) == [10]


def test_a_file_in_the_way_of_tombstones_is_rewritten_first():
    """TAB-5."""
    segments = [segment(0, clean=99), segment(10), segment(20, stuck=(25, 45_000)), segment(30)]
    assert chosen(segments, {0: 50_000, 10: 50_000, 20: 1000}) == [10]


def test_what_a_file_will_take_has_its_head_and_the_columns():
    segments = [segment(0), segment(10)]
    sizes = sizes_after(segments, lambda *_: (10, 1000))
    assert sizes == [HEAD_SIZE + 64 + 1000 + 10 * 12]


def test_a_tombstone_may_go_from_the_first_file_whenever_it_is_gone():
    assert clean_below([]) > 2**62
    assert clean_below([segment(0, clean=7), segment(5, clean=3)]) == 3


def test_what_a_file_has_besides_is_known_once_it_was_rewritten():
    """DUR-10: so it is not rewritten for that again."""
    segments = [segment(0), segment(10)]
    segments[0].besides = 40_000
    assert sizes_after(segments, lambda *_: (10, 1000)) == [40_000 + 1000 + 10 * 12]


def test_a_few_tombstones_do_not_pay_for_reading_what_is_in_their_way():
    """TAB-5: otherwise a few bytes of them would have all files before them rewritten."""
    few = [segment(0), segment(10), segment(20, 8_000, stuck=(25, 8_000)), segment(30)]
    live = {0: 50_000, 10: 50_000}
    assert chosen(few, live) == []
    few[2] = segment(20, 30_000, stuck=(25, 30_000))
    assert chosen(few, live) == [0]
    few[0].clean_below = 25
    few[2] = segment(20, 14_000, stuck=(25, 14_000))
    assert chosen(few, live) == [10]


def test_nothing_is_rewritten_for_tombstones_that_damage_keeps_from_going():
    segments = [segment(0), segment(10), segment(20, stuck=(25, 45_000)), segment(30)]
    segments[1].is_rewritable = False
    assert chosen(segments, {0: 50_000, 10: 50_000}) == []
