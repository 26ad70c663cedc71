"""Shares: a user may have as much as is free."""

from zaichik.apps.users.shares import Shares


def taken(shares, user, amount=1):
    """Takes as often as the user may, and returns how often that was."""
    count = 0
    while shares.may_take(user, amount):
        shares.take(user, amount)
        count += 1
    return count


def test_each_user_may_have_as_much_as_the_others_leave():
    shares = Shares(64)
    assert [taken(shares, user) for user in ("ana", "bob", "eve")] == [32, 16, 8]
    assert (shares.taken, shares.free, shares.of("bob")) == (56, 8, 16)
    assert shares.is_used_up("ana")
    assert not shares.is_used_up("joe")


def test_where_nobody_logs_in_all_may_be_taken():
    shares = Shares(3)
    assert taken(shares, "") == 3
    assert shares.is_used_up("")


def test_nobody_gets_more_than_there_is():
    shares = Shares(10)
    assert not shares.may_take("ana", 11)
    assert taken(shares, "ana", 4) == 2
    assert not shares.may_take("bob", 3)
    assert shares.may_take("bob", 2)


def test_what_was_given_back_may_be_taken_by_anybody():
    shares = Shares(4)
    assert taken(shares, "ana") == 2
    shares.give_back("ana", 2)
    assert (shares.taken, shares.of("ana")) == (0, 0)
    assert taken(shares, "bob") == 2
