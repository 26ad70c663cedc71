"""Bugs in MQTT's gateway, each with the test that finds it.

They are slips as those in `planted_slips.py`, in a table of their own.
"""

from planted_slips import Slip

TALK = "apps/mqtt/test_conversation.py"
SESSIONS = "apps/mqtt/test_sessions.py"
RETAINED = "apps/mqtt/test_retained.py"
WILLS = "apps/mqtt/test_wills.py"
GROUPS = "apps/mqtt/test_groups.py"
LOGINS = "apps/mqtt/test_logins.py"
WINDOW = "apps/mqtt/test_window.py"
WEBSOCKET = "apps/mqtt/test_websocket.py"
UPGRADE = "apps/mqtt/test_upgrade.py"
ALIASES = "apps/mqtt/test_aliases.py"
CLAIMS = "apps/mqtt/test_claims.py"

GATEWAY_SLIPS = [
    Slip(
        "a gateway that was replaced stores what it knows over what the other one has read",
        "mqtt.gateway:Gateway._hold",
        "state.is_over = True",
        "pass",
        f"{CLAIMS}::test_it_ends_and_stores_nothing_over_what_the_other_one_has_read",
    ),
    Slip(
        "a client is sent messages under identifiers that it has not forgotten",
        "mqtt.sessions:Sessions._restore",
        "session.window.forget_all()",
        "pass",
        f"{SESSIONS}::test_a_message_is_not_taken_for_one_that_an_earlier_gateway_has_sent",
    ),
    Slip(
        "a topic is left out of the packet that tells its number",
        "mqtt.aliases:Aliases.of",
        "Alias(len(self._told) + 1, is_known=False)",
        "Alias(len(self._told) + 1, is_known=True)",
        f"{ALIASES}::test_the_first_message_of_a_topic_tells_its_number_and_the_others_have_it_alone",
    ),
    Slip(
        "a number is taken to be known although the packet with it was not sent",
        "mqtt.delivery:Delivery._packet",
        "len(data) > self._most_bytes",
        "False",
        f"{ALIASES}::test_a_packet_that_is_too_large_with_a_number_is_sent_without_one",
    ),
    Slip(
        "a message is acknowledged and not stored",
        "mqtt.conversation:Conversation._publish",
        "await self._stored(fresh)",
        "{}",
        f"{TALK}::test_what_came_before_a_malformed_packet_counts",
    ),
    Slip(
        "a message of QoS 2 that comes again is stored again",
        "mqtt.conversation:Conversation._is_fresh",
        "message.packet_id in received",
        "False",
        f"{TALK}::test_a_message_of_qos_2_that_comes_twice_before_its_release_is_stored_once",
    ),
    Slip(
        "the levels of a session's filters are not counted",
        "mqtt.quota:FilterQuota.has_room",
        "self.levels + one.levels <= MOST_LEVELS",
        "True",
        f"{TALK}::test_a_session_has_a_limit_of_levels",
    ),
    Slip(
        "filters that were removed count on",
        "mqtt.sessions:Sessions.unsubscribe",
        "session.quota.subtract",
        "str",
        f"{TALK}::test_a_session_has_a_limit_of_levels",
    ),
    Slip(
        "a filter's characters are counted as they are sent, and not as they are stored",
        "mqtt.quota:_json_bytes",
        "len(json.dumps(text))",
        "len(text)",
        f"{TALK}::test_the_filters_of_a_session_fit_into_its_row",
    ),
    Slip(
        "a group's name is longer than a key in the broker",
        "mqtt.subscribing:_problem",
        "len(key.encode()) > MOST_KEY_BYTES",
        "False",
        f"{TALK}::test_a_group_has_a_name_that_is_a_key_in_the_broker",
    ),
    Slip(
        "the rows of many sessions are stored at once, however large they are",
        "mqtt.sessions:_batches",
        "size + row_size > most",
        "False",
        f"{SESSIONS}::test_the_positions_of_many_sessions_are_stored_in_batches_that_the_broker_takes",
    ),
    Slip(
        "a message is published with the QoS that the subscriber asked for",
        "mqtt.delivery:Delivery.take",
        "min(qos, entry.qos)",
        "qos",
        f"{TALK}::test_a_message_has_the_lower_qos_of_publisher_and_subscriber",
    ),
    Slip(
        "a client is sent what it has published itself",
        "mqtt.delivery:Delivery.take",
        "one.no_local and entry.publisher == publisher",
        "False",
        f"{TALK}::test_no_local_leaves_out_what_the_session_itself_has_published",
    ),
    Slip(
        "a client's receive maximum is ignored",
        "mqtt.delivery:Delivery.has_room",
        "qos and window.is_full",
        "False",
        f"{TALK}::test_no_more_messages_are_in_flight_than_the_client_has_said",
    ),
    Slip(
        "a packet is sent that is larger than the client takes",
        "mqtt.delivery:Delivery.send",
        "len(data) > self._most_bytes",
        "False",
        f"{TALK}::test_a_message_that_is_larger_than_the_client_takes_is_left_out_and_no_other",
    ),
    Slip(
        "a property is lost",
        "mqtt.forwarding:stored",
        "properties.user_properties",
        "()",
        f"{TALK}::test_the_properties_of_a_message_reach_a_subscriber_and_a_request_is_answered",
    ),
    Slip(
        "a message is sent again without saying so",
        "mqtt.delivery:Delivery._send_again",
        "_encoded(template, message, identifier, dup=True)",
        "_encoded(template, message, identifier)",
        f"{SESSIONS}::test_what_was_in_flight_comes_again_under_the_same_identifier_marked_as_such",
    ),
    Slip(
        "a message of QoS 2 that was received is sent again",
        "mqtt.delivery:Delivery.received",
        "message.stage = Stage.RELEASED",
        "pass",
        f"{SESSIONS}::test_a_message_of_qos_2_that_was_received_is_released_again_and_not_sent_again",
    ),
    Slip(
        "an identifier in flight is given out again",
        "mqtt.window:Window.add",
        "identifier in self._messages",
        "False",
        f"{WINDOW}::test_an_identifier_in_flight_is_not_given_out_again",
    ),
    Slip(
        "a session's position is above a message that is not acknowledged",
        "mqtt.session:Session.position",
        "self.window.lowest(space)",
        "None",
        f"{SESSIONS}::test_what_was_not_acknowledged_comes_again_from_another_gateway",
    ),
    Slip(
        "a session is kept for ever",
        "mqtt.sessions:Sessions.expire",
        "expires_us <= now_us",
        "False",
        f"{SESSIONS}::test_a_session_is_kept_for_as_long_as_its_client_has_said",
    ),
    Slip(
        "the broker keeps everything",
        "mqtt.keeper:Keeper.hold",
        "offset == self._offset",
        "self._offset == 0",
        f"{SESSIONS}::test_the_broker_keeps_what_a_session_that_is_away_needs_and_no_more",
    ),
    Slip(
        "offsets of a topic that was made anew are taken for the old ones",
        "mqtt.state:State._begin_in",
        "own.epochs[space] != self.sessions.epochs.get(space) or live < end",
        "False",
        f"{SESSIONS}::test_places_in_a_topic_that_was_made_anew_are_forgotten",
    ),
    Slip(
        "a live message has the retain flag",
        "mqtt.delivery:Delivery.take",
        "one.retain_as_published and entry.retain",
        "entry.retain",
        f"{RETAINED}::test_a_live_message_has_no_retain_flag",
    ),
    Slip(
        "a message is in its topic before it is in the table",
        "mqtt.publisher:Publisher._stored",
        """
        await self._store_retained([item for item in items if item.message.retain])
        good = [item for item in items if not item.code.is_failure]
        for space in self._spaces.names:
            mine = [item for item in good if item.space == space]
            for batch in self._batches(via, mine):
                await self._store(via, space, batch, publisher, number, acked_by)
        """,
        """
        good = [item for item in items if not item.code.is_failure]
        for space in self._spaces.names:
            mine = [item for item in good if item.space == space]
            for batch in self._batches(via, mine):
                await self._store(via, space, batch, publisher, number, acked_by)
        await self._store_retained([item for item in items if item.message.retain])
        """,
        f"{RETAINED}::test_a_message_is_in_the_table_before_it_is_in_its_topic",
    ),
    Slip(
        "an older retained message takes the place of a newer one",
        "mqtt.retained:Retained.note",
        "offset <= newest",
        "False",
        f"{RETAINED}::test_the_newer_row_stays_in_whichever_order_answers_come",
    ),
    Slip(
        "retained messages are for everybody",
        "mqtt.retained:Retained.matching",
        "kept is not None and spaces.space_of(topic) in subscription.starts",
        "kept is not None",
        f"{LOGINS}::test_retained_messages_need_the_right_to_their_tree",
    ),
    Slip(
        "a client that only reads outlives its login",
        "mqtt.connection:Connection._serve",
        "tasks.start_soon(self._end_with, login)",
        "pass",
        f"{LOGINS}::test_a_login_that_ends_ends_the_clients_that_it_has",
    ),
    Slip(
        "a will is published after a goodbye",
        "mqtt.conversation:Conversation._disconnect",
        "packet.reason_code != ReasonCode.NORMAL_DISCONNECTION",
        "True",
        f"{WILLS}::test_a_client_that_says_goodbye_leaves_none",
    ),
    Slip(
        "a will is published by each gateway that finds its row",
        "mqtt.wills:Wills.publish_due",
        "will.number",
        "0",
        f"{WILLS}::test_a_will_is_published_once_even_if_its_row_stays",
    ),
    Slip(
        "a message of QoS 2 is given to a second member",
        "mqtt.groups:Group.left",
        "message.group is self and message.qos == 1",
        "message.group is self",
        f"{GROUPS}::test_qos_2_stays_with_its_member",
    ),
    Slip(
        "a group waits for a message that its member was never sent",
        "mqtt.delivery:Delivery.send",
        "self.settled(identifier)",
        "self._session.window.settle(identifier)",
        f"{GROUPS}::test_a_group_does_not_wait_for_what_a_member_was_never_sent",
    ),
    Slip(
        "a will that was published deletes the row of a newer one",
        "mqtt.wills:Wills.publish_due",
        "name not in self._wills",
        "True",
        f"{WILLS}::test_a_will_that_is_being_published_does_not_take_a_newer_one_along",
    ),
    Slip(
        "a client is called silent while it waits for the broker",
        "mqtt.connection:Connection.check_silence",
        "not self._is_listening",
        "False",
        f"{TALK}::test_a_client_is_not_called_silent_while_it_waits_for_the_broker",
    ),
    Slip(
        "a page of any site may connect",
        "mqtt.origins:Origins._is_allowed",
        "name in self._pages or PageName.of(origin).host in LOCAL",
        "True",
        f"{UPGRADE}::test_another_scheme_or_port_is_another_page",
    ),
    Slip(
        "a client that reads nothing is owed all its pongs",
        "mqtt.websocket:WebSocketStream._take",
        "self._pong = bytes(self._protocol.send(event.response()))",
        "self._pong += bytes(self._protocol.send(event.response()))",
        f"{WEBSOCKET}::test_a_client_that_pings_and_reads_nothing_is_owed_one_pong",
    ),
    Slip(
        "bytes that came with the handshake are forgotten",
        "mqtt.websocket:WebSocketStream._parse",
        "not self._is_behind",
        "True",
        f"{WEBSOCKET}::test_payload_is_returned_in_pieces_as_small_as_asked_for",
    ),
    Slip(
        "a frame may be of any length",
        "mqtt.websocket:_Limits.frame_inbound_header",
        "payload_length > self._most_bytes",
        "False",
        f"{WEBSOCKET}::test_a_frame_has_as_many_bytes_as_a_packet",
    ),
]
