"""Places that no user can take all of."""

from contextlib import ExitStack

import pytest

from zaichik.apps.web.topics.places import Places
from zaichik.apps.web.topics.statuses import Refusal


def taken(places, stack, user):
    """Takes places until there are no more for this user, and returns how many that were."""
    count = 0
    with pytest.raises(Refusal) as caught:  # noqa: PT012 (all calls but the last one succeed)
        while True:
            stack.enter_context(places.taking(user))
            count += 1
    assert (caught.value.status, caught.value.retry_after) == (503, 1)
    return count


def test_a_user_has_as_many_places_as_are_free():
    places = Places(64, "TOO_MANY_STREAMS", "streams")
    with ExitStack() as stack:
        counts = [taken(places, stack, user) for user in ("ana", "bob", "eve")]
        assert counts == [32, 16, 8]
        assert places.taken == 56


def test_where_nobody_logs_in_everybody_shares_all_places():
    places = Places(64, "TOO_MANY_STREAMS", "streams")
    with ExitStack() as stack:
        assert taken(places, stack, "") == 64


def test_a_place_comes_back_whatever_happens_in_it():
    places = Places(2, "TOO_MANY_STREAMS", "streams")
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"), places.taking("ana"):
            raise ValueError("broken")
    assert places.taken == 0
