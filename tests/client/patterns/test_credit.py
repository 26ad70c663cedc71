"""One credit in shares (PAT-2)."""

import pytest

from zaichik.client.patterns.credit import CreditShare, DividedCredit


def taken(shares, readers, count):
    return [shares.take(readers).messages for _ in range(count)]


@pytest.mark.parametrize("readers", [4, 10, 100])
def test_of_those_that_are_there_the_last_has_more_than_half_of_the_first(readers):
    shares = taken(DividedCredit(10_000, 1000), readers, readers)
    assert shares[0] == 10_000 // (2 * readers)
    assert shares[-1] > shares[0] / 2
    assert sum(shares) <= 5000


@pytest.mark.parametrize("there", [0, 1, 10, 100])
def test_all_together_have_no_more_than_the_credit_as_long_as_each_has_more_than_one(there):
    shares = DividedCredit(100_000, 1000)
    all_taken = taken(shares, there, there)
    while True:
        share = shares.take(len(all_taken) + 1).messages
        if share == 1:
            break
        all_taken.append(share)
    assert sum(all_taken) <= 100_000
    assert len(all_taken) > 1000
    assert all_taken == sorted(all_taken, reverse=True)


def test_a_share_is_one_message_and_one_byte_at_least():
    shares = DividedCredit(1, 3)
    assert [shares.take(10) for _ in range(3)] == [CreditShare(1, 1)] * 3


def test_what_is_given_back_is_there_for_others():
    shares = DividedCredit(80, 80)
    first = [shares.take(4) for _ in range(50)]
    assert first[0] == CreditShare(10, 10)
    assert first[-1] == CreditShare(1, 1)
    for share in first:
        shares.give_back(share)
    assert shares.take(4) == CreditShare(10, 10)
