from zaichik.apps.views.topics import Topics

COUNTED = (
    "name",
    "head",
    "next_offset",
    "bytes",
    "published",
    "damaged",
    "refused",
    "subscriptions",
    "needed",
)


def counted(*values, needed_us=None):
    return dict(zip(COUNTED, values, strict=True)) | {"needed_us": needed_us, "capacity": 100}


def test_a_row_tells_rate_lag_and_state():
    def row(at_s, *numbers, **more):
        topics.seen(counted("t", *numbers, **more), at_s * 1_000_000)
        return topics.rows["t"]

    topics = Topics(20, 3_000_000)
    first = row(100, 0, 10, 0, 10, 0, 0, 1, 10)
    assert (first.rate, first.state, first.lag_s, first.spark) == (0, "quiet", None, [])
    second = row(104, 0, 50, 0, 50, 0, 0, 1, 30, needed_us=99_000_000)
    assert (second.rate, second.state, second.lag, second.lag_s) == (10, "behind", 20, 5)
    assert second.spark == [10]
    third = row(105, 5, 50, 0, 50, 2, 3, 1, 50)
    assert (third.rate, third.state, third.held) == (8, "full", 43)
    restarted = row(106, 0, 1, 0, 1, 0, 0, 0, 1)
    assert (restarted.rate, restarted.spark) == (0, [])


def test_a_topic_that_was_made_again_with_more_than_it_had_has_no_rate_of_both():
    topics = Topics(20)
    for second, epoch, published in ((1, 7, 5), (2, 7, 10), (3, 8, 12)):
        row = counted("t", 0, published, 0, published, 0, 0, 0, published) | {"epoch": epoch}
        topics.seen(row, second * 1_000_000)
    assert (topics.rows["t"].rate, topics.rows["t"].spark) == (0, [])


def test_an_old_broker_does_not_tell_how_old_a_lag_is():
    topics = Topics(20)
    topics.seen(counted("t", 0, 10, 0, 10, 0, None, 1, 5), 1)
    assert (topics.rows["t"].lag_s, topics.rows["t"].state) == (None, "behind")


def test_sparks_are_bounded_and_topics_that_are_gone_are_forgotten():
    topics = Topics(3)
    for second in range(10):
        for name in ("a", "b"):
            topics.seen(counted(name, 0, second, 0, second, 0, 0, 0, second), second * 1_000_000)
    assert topics.rows["a"].spark == [1, 1, 1]
    topics.keep({"b"})
    assert list(topics.rows) == list(topics._samples) == ["b"]


def test_topics_are_searched_and_sorted():
    topics = Topics(3)
    for name, held in (("Ab", 2), ("b", 3), ("c", 1)):
        topics.seen(counted(name, 0, held, 0, held, 0, 0, 0, held), 1)
    assert [row.name for row in topics.found("B", "held", descending=True)] == ["b", "Ab"]
    assert [row.name for row in topics.found("", "name", descending=False)] == ["Ab", "b", "c"]
    assert len(topics.found("", "__class__", descending=False)) == 3


def test_a_table_holds_what_can_be_read_and_not_its_holes():
    topics = Topics(3)
    table = {"resident": 5, "tombstones": 2, "lag": 1}
    topics.seen(counted("t", 0, 50, 0, 50, 0, 0, 1, 10) | table, 1)
    row = topics.rows["t"]
    assert (row.held, row.is_table, row.lag) == (3, True, 1)
    topics.seen(counted("u", 0, 50, 0, 50, 0, 0, 0, 50) | {"resident": 50, "tombstones": None}, 1)
    assert (topics.rows["u"].held, topics.rows["u"].is_table) == (50, False)
