"""Bugs in HTTP for programs: a message is lost, stored twice, or read by somebody else's page.

They are slips as those in `planted_slips.py`, in a table of their own.
"""

from planted_slips import Slip

FOLDER = "apps/web/topics/"
FRONT = FOLDER + "test_front.py"
PUBLISHING = FOLDER + "test_publishing.py"
READING = FOLDER + "test_reading.py"
SETTLING = FOLDER + "test_settling.py"

HTTP_SLIPS = [
    Slip(
        "any site may post to the addresses for programs",
        "Guard._problem_of_program",
        "(origins or is_browser) and not is_ours",
        "False",
        FRONT,
    ),
    Slip(
        "a browser without an Origin is a program",
        "Guard._problem_of_program",
        "origins or is_browser",
        "origins",
        FRONT,
    ),
    Slip(
        "nobody looks at a token",
        "Web._program",
        "await self.sessions.bearing(token.strip())",
        "await self._asker(request)",
        FRONT + "::test_every_program_may_do_what_its_user_may",
    ),
    Slip(
        "names are moved without --write",
        "Topics._settle",
        "self._check_write()",
        "pass",
        SETTLING,
    ),
    Slip(
        "a path is split after it was decoded",
        "topics.addresses:Address.of",
        '[_decoded(part) for part in scope["raw_path"].split(b"/")]',
        '_decoded(scope["raw_path"]).split("/")',
        FOLDER + "test_addresses.py",
    ),
    Slip(
        "what is not UTF-8 is another topic",
        "topics.addresses:_decoded",
        "unquote_to_bytes(data).decode()",
        'unquote_to_bytes(data).decode(errors="replace")',
        FOLDER + "test_addresses.py",
    ),
    Slip(
        "a chunked body is not counted",
        "Bodies._check_room",
        "taken > most",
        "False",
        PUBLISHING,
    ),
    Slip(
        "a body may have two lengths",
        "Guard._problem",
        '"content-length" in headers and "transfer-encoding" in headers',
        "False",
        FOLDER + "test_attacks.py::test_a_body_has_one_length",
    ),
    Slip(
        "the first of two headers counts",
        "topics.front:_check_headers",
        "len(request.headers.getlist(name)) > 1",
        "False",
        FOLDER + "test_attacks.py::test_a_header_that_is_there_twice_is_refused",
    ),
    Slip(
        "an empty name is none",
        "topics.front:_wanted",
        'fields.get("name") == ""',
        "False",
        READING + "::test_a_request_that_means_nothing_is_refused",
    ),
    Slip(
        "one user may take all places",
        "Places.taking",
        "shares.may_take(user)",
        'shares.may_take("")',
        FOLDER + "test_places.py",
    ),
    Slip(
        "a user is unknown until the page is connected",
        "Sessions.log_in",
        "session.hub.user = user",
        "pass",
        FRONT + "::test_keys_belong_to_a_user_also_before_the_page_is_connected",
    ),
    Slip(
        "requests to a full topic take all connections",
        "topics.publishing:Publishing.answer",
        "self._places.taking(user)",
        "anyio.CancelScope()",
        FOLDER + "test_attacks.py::test_a_full_topic_does_not_keep_others_out",
    ),
    Slip(
        "a connection is parsed for as long as it likes",
        "web.connection:Connection.connection_made",
        "transport.max_size = READ_BYTES",
        "pass",
        FOLDER + "test_attacks.py::test_a_large_body_is_parsed_in_small_parts",
    ),
    Slip(
        "all streams write at once",
        "topics.reading:Reading._send_all",
        "async with self._turn: data = "
        "self._form.messages(epoch, part, in_table=subscription.table)",
        "data = self._form.messages(epoch, part, in_table=subscription.table)",
        READING + "::test_streams_that_are_behind_write_by_turns",
    ),
    Slip(
        "a part of a stream has no limit",
        "topics.reading:_in_parts",
        "size >= PART_BYTES",
        "False",
        READING + "::test_a_stream_is_written_in_small_parts",
    ),
    Slip(
        "the connection is given all of a message at once",
        "topics.reading:Output.write",
        "data[start : start + PART_BYTES]",
        "data",
        READING,
    ),
    Slip(
        "the memory of a body never comes back",
        "Bodies.of",
        "self._free += taken",
        "pass",
        PUBLISHING,
    ),
    Slip(
        "the last of two members of a line counts",
        "topics.lines:_members",
        "len(found) < len(pairs)",
        "False",
        FOLDER + "test_lines.py",
    ),
    Slip(
        "a retry of what was given up has a new number",
        "topics.publishing:_numbered",
        "attempt.number is None",
        "True",
        PUBLISHING,
    ),
    Slip(
        "a repeated request is carried out again",
        "topics.publishing:Publishing.answer",
        "not attempt.answer",
        "True",
        PUBLISHING,
    ),
    Slip(
        "repeats do not wait for the first",
        "Idempotency.turn",
        "async with _held(attempt.turn): yield attempt",
        "yield attempt",
        FOLDER + "test_idempotency.py",
    ),
    Slip(
        "all users share their idempotency keys",
        "Idempotency._attempt",
        "self._users.setdefault(user, OrderedDict())",
        'self._users.setdefault("", OrderedDict())',
        FOLDER + "test_idempotency.py",
    ),
    Slip(
        "a number is used twice",
        "Producers.publish",
        "Number(number.topic, number.producer, number.sequence + 1)",
        "Number(number.topic, number.producer, number.sequence)",
        PUBLISHING,
    ),
    Slip(
        "a browser goes on at the message that it has",
        "topics.positions:Position.of",
        "cls(epoch, offset + 1)",
        "cls(epoch, offset)",
        READING,
    ),
    Slip(
        "a stream that goes on forgets which topic it is of",
        "topics.reading:Reading._subscribe",
        "epoch = self._position.epoch",
        "pass",
        READING,
    ),
    Slip(
        "a lost connection ends a browser's stream for good",
        "topics.reading:Reading._read",
        "self._form.lasts and refusal.is_temporary",
        "False",
        READING,
    ),
    Slip(
        "what was sent is settled",
        "topics.reading:Reading._subscribe",
        'commit = "explicit"',
        "pass",
        SETTLING,
    ),
    Slip(
        "what a browser has received is not settled",
        "topics.reading:Reading._subscribed",
        "self._wanted.name and self._received is not None",
        "False",
        SETTLING,
    ),
    Slip(
        "a stream that was taken over lets its browser come back",
        "topics.reading:Reading._fail",
        "self._form.lasts",
        "False",
        SETTLING,
        nth=2,
    ),
    Slip(
        "a stream without a client stays",
        "topics.reading:_until_gone",
        "scope.cancel()",
        "pass",
        READING + "::test_a_stream_ends_with_its_client",
    ),
    Slip(
        "a browser that begins before the first message begins at the next one",
        "topics.forms:Events.begin",
        'f"retry: {RETRY_MS}\\nid: {position}\\n\\n".encode()',
        'f"retry: {RETRY_MS}\\n\\n".encode()',
        READING + "::test_a_browser_that_was_sent_nothing_goes_on_where_it_began",
    ),
]
