"""Bugs in the connections of gateways' users, each of which a named test finds.

They are slips as those in `planted_slips.py`, in a table of their own.
"""

from planted_slips import Slip

CONNECTIONS = "apps/users/test_connections.py::test"
FAILURES = "apps/users/test_failures.py::test"
CREDENTIALS = "apps/users/test_credentials.py::test"

USER_SLIPS = [
    # -- sharing -------------------------------------------------------------------------------
    Slip(
        "all users share the first one's connection",
        "UserConnections.acquire",
        "self._users.get(key)",
        "next(iter(self._users.values()), None)",
        f"{CONNECTIONS}_clients_with_the_same_login_share_a_connection",
    ),
    Slip(
        "any password will do for a user who is connected",
        "UserConnections._key_of",
        "(credentials.user, credentials.secret)",
        "(credentials.user, credentials.user or credentials.secret)",
        f"{CONNECTIONS}_logins_with_the_same_name_and_other_passwords_share_nothing",
    ),
    Slip(
        "tokens wait for passwords",
        "UserConnections._begin",
        "turns = self._token_turns",
        "turns = self._password_turns",
        f"{CONNECTIONS}_a_login_does_not_wait_for_another_one",
    ),
    Slip(
        "passwords take all places that the broker has for an address",
        "connections:PASSWORDS_AT_ONCE",
        "1",
        "2",
        f"{CONNECTIONS}_only_so_many_logins_are_tried_at_a_time",
    ),
    # -- clients that leave --------------------------------------------------------------------
    Slip(
        "a client that leaves while it waits is still counted",
        "UserConnections._settled",
        """
        self.release(user)
        raise
        """,
        "raise",
        f"{CONNECTIONS}_an_attempt_that_has_begun_is_finished_and_leaves_nothing_behind",
    ),
    Slip(
        "logins pile up for which nobody waits",
        "UserConnections.release",
        "user.queued.cancel()",
        "pass",
        f"{CONNECTIONS}_an_attempt_that_waits_for_its_turn_is_dropped_with_its_client",
    ),
    # -- failures ------------------------------------------------------------------------------
    Slip(
        "guesses cost nothing",
        "UserConnections._open_for",
        "self._failures.failed(attempt.peer)",
        "pass",
        f"{CONNECTIONS}_an_address_that_fails_too_often_is_refused_without_asking_the_broker",
    ),
    Slip(
        "all that wait for their turn are tried, however many have failed meanwhile",
        "UserConnections._open_for",
        "not self._failures.may_try(attempt.peer)",
        "False",
        f"{CONNECTIONS}_all_addresses_together_fail_less_than_the_broker_allows_the_gateway",
    ),
    Slip(
        "who has guessed too often is told if a password is right",
        "UserConnections.acquire",
        "is_guess and not self._failures.may_guess(peer)",
        "False",
        f"{CONNECTIONS}_a_password_cannot_be_guessed_by_who_is_connected",
    ),
    Slip(
        "guesses cost nothing while too many others fail",
        "UserConnections._charge_guess",
        "self._failures.guessed(peer)",
        "pass",
        f"{CONNECTIONS}_a_password_cannot_be_guessed_by_who_is_connected",
    ),
    Slip(
        "one address may fail as often as all together",
        "failures:OF_ONE",
        "OF_ALL // 2",
        "OF_ALL",
        f"{FAILURES}_one_address_cannot_use_up_what_all_have",
    ),
    Slip(
        "a gateway may fail as often as the broker allows",
        "failures:OF_ALL",
        "FAILURES // 2",
        "FAILURES * 2",
        f"{FAILURES}_the_broker_never_delays_a_gateway_that_is_attacked_for_long",
    ),
    Slip(
        "each address of a network counts alone",
        "Failures.guessed",
        "client_of(peer)",
        'peer.rpartition(":")[0]',
        f"{FAILURES}_a_network_of_ipv6_is_one_address",
    ),
    Slip(
        "a login that has ended and is tried again is not counted",
        "UserConnections._watch",
        "error.name == AuthFailed.name",
        "False",
        f"{CONNECTIONS}_logins_that_have_ended_count_for_all_and_for_no_address",
    ),
    # -- keeping -------------------------------------------------------------------------------
    Slip(
        "a connection is kept for ever",
        "UserConnections._needed",
        "anyio.move_on_after(self._keep_s)",
        "anyio.move_on_after(None)",
        f"{CONNECTIONS}_then_it_is_closed_and_made_again",
    ),
    Slip(
        "a connection is closed under a client that has just taken it",
        "UserConnections._needed",
        "if user.uses:\n    await user.changed.wait()\n    continue",
        "pass",
        f"{CONNECTIONS}_then_it_is_closed_and_made_again",
    ),
    Slip(
        "users that nobody uses keep others out",
        "UserConnections._make_room",
        "not self._unused",
        "True",
        f"{CONNECTIONS}_only_so_many_users_are_connected",
    ),
    Slip(
        "a connection that is lost for good is kept",
        "UserConnections._watch",
        "connection.on_lost = on_lost",
        "pass",
        f"{CONNECTIONS}_a_connection_that_is_lost_for_good_is_not_handed_out_again",
    ),
    Slip(
        "the client is not told that its connection is lost",
        "UserConnections._watch",
        "tell_client(lost)",
        "pass",
        f"{CONNECTIONS}_the_client_itself_still_learns_that_it_is_lost",
    ),
    Slip(
        "a gateway that stops closes connections under its clients",
        "UserConnections._keep",
        "while user.uses:\n    user.changed = anyio.Event()\n    await user.changed.wait()",
        "pass",
        f"{CONNECTIONS}_a_gateway_that_stops_closes_connections_after_their_clients",
    ),
    # -- secrets -------------------------------------------------------------------------------
    Slip(
        "a login is known by a hash that can be looked up",
        "UserConnections._key_of",
        "hashlib.blake2b(repr(known).encode(), key=self._hash_key)",
        "hashlib.blake2b(repr(known).encode())",
        f"{CONNECTIONS}_no_secret_is_kept_or_logged",
    ),
    Slip(
        "a password that begins as a token is none",
        "users.credentials:credentials_of",
        "TOKEN.fullmatch(secret)",
        'secret.startswith("zk_")',
        f"{CREDENTIALS}_a_token_may_stand_in_either_place",
    ),
]
