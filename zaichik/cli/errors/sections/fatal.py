"""The errors with which a broker ends a connection: disagreement on bytes, deadlines, logins."""

from zaichik.cli.errors.section import Section
from zaichik_protocol import ErrorCode as Code

FATAL = (
    Section(
        code=Code.MALFORMED,
        title="the bytes aren't a frame of this protocol",
        what="A frame's fields end before or after the length that it announces, its header is "
        "impossible, or a Hello "
        "lacks the four bytes ZAIK.",
        why="Frames follow one another without marks in between. If one can't be parsed, nobody "
        "knows where the next "
        "begins. So the frames before it are answered, and the connection ends.",
        rules="ERR",
        then="Write what your client sends into a file: `zaichik dissect FILE` explains every "
        "field, and marks the "
        "first wrong one. Usual causes: a length that counts itself, big-endian integers, a field "
        "left out. `zaichik "
        "learn check S3` sends such bytes to a broker of yours.",
        chapter_number=3,
        page="run/reliability.md#bad-input",
    ),
    Section(
        code=Code.FRAME_TOO_LARGE,
        title="a frame announces more bytes than allowed",
        what="The length in a frame's header is above the limit: 4,096 for a Hello, then the "
        "broker's max_frame (1.125 "
        "MiB by default). The broker doesn't wait for the rest.",
        why="Four bytes are enough to announce 4 GiB, and a broker that believed them could be "
        "filled by anyone. Often "
        "such a length isn't a length at all, because an earlier frame ended elsewhere than its "
        "sender thought.",
        rules="ERR",
        then="Send smaller batches: `client.producer(TOPIC)` chooses their size by itself. If the "
        "length makes no "
        "sense, look at the bytes with `zaichik dissect FILE`. `zaichik describe` shows max_frame, "
        "and `zaichik serve "
        "--limit max_frame=4MiB` raises it.",
        chapter_number=3,
        page="run/reliability.md#bad-input",
    ),
    Section(
        code=Code.HELLO_REQUIRED,
        title="the first frame was not a Hello",
        what="A client sent a request before it had introduced itself.",
        why="Hello and Welcome settle the version, the limits and the user. Before that, no "
        "request has a meaning that "
        "both sides are sure to share.",
        rules="ERR",
        then="Send Hello first on every new connection, also after a reconnect. You may send "
        "requests right behind it "
        "without waiting for Welcome. zaichik's clients do this by themselves.",
        chapter_number=3,
    ),
    Section(
        code=Code.UNSUPPORTED_VERSION,
        title="the two sides share no protocol version",
        what="Every version in the Hello, from version_min to version_max, is unknown to the "
        "broker. The message names "
        "both ranges.",
        why="The broker picks the newest version that both know. With none in common, it can't "
        "even say more than "
        "this.",
        rules="ERR",
        then="Install the same release on both sides: `zaichik --version` on each. In a client of "
        "your own, check the "
        "two fields of its Hello with `zaichik dissect`: today the only version is 1.",
        chapter_number=3,
    ),
    Section(
        code=Code.HANDSHAKE_TIMEOUT,
        title="no complete Hello came in time",
        what="The connection was open for 5 seconds (handshake_timeout), and the broker still had "
        "no whole Hello.",
        why="A connection costs memory and a file descriptor. One that never says who it is must "
        "not keep others out; "
        "and a Hello byte by byte counts as silence.",
        rules="TIM-1",
        then="Connect only when you are ready to speak, and send the Hello in one piece. A program "
        "that just tests "
        "whether the port is open may ignore this. For a very slow network: `zaichik serve --limit "
        "handshake_timeout=15s`.",
        page="run/reliability.md#hostile-behaviour",
    ),
    Section(
        code=Code.FRAME_TIMEOUT,
        title="a frame was begun and not completed in time",
        what="Part of a frame arrived, and the rest didn't within 10 seconds plus its size at 16 "
        "KiB a second.",
        why="The broker must keep an incomplete frame in memory. Without a limit of time, a few "
        "bytes could hold that "
        "memory for ever.",
        rules="TIM-2",
        then="Look for a client that was stopped in the middle of a send, or whose network is "
        "slower than 16 KiB a "
        "second. Make batches smaller, or set frame_timeout: `zaichik serve --limit "
        "frame_timeout=30s`. Our client "
        "reconnects and sends again what has no answer.",
        page="run/reliability.md#hostile-behaviour",
    ),
    Section(
        code=Code.IDLE_TIMEOUT,
        title="a promised heartbeat didn't come",
        what="The client promised a heartbeat in its Hello, and sent nothing at all for 90 seconds "
        "(idle_timeout).",
        why="TCP doesn't notice a peer that is frozen. The promise is how a broker finds out; a "
        "client that has "
        "promised nothing may be silent for ever.",
        rules="TIM-3",
        then="In a client of your own, send a Ping every 30 seconds, or leave the HEARTBEAT "
        "feature out of its Hello. "
        "With ours, something blocked the event loop: move long work to a thread, `await "
        "anyio.to_thread.run_sync(f)`, "
        "or use zaichik.blocking, whose loop has a thread of its own.",
        page="run/reliability.md#hostile-behaviour",
    ),
    Section(
        code=Code.AUTH_FAILED,
        title="the broker doesn't accept these credentials",
        what="The broker has users, and this connection proved to be none of them. The token or "
        "password is missing, "
        "wrong, expired or removed; the answer is the same in all these cases.",
        why="A different answer for each case would tell a guesser which users exist.",
        rules="ACC-1",
        then="Log in: `zaichik login`, and paste the line from the broker's operator; in Python, "
        "pass that line to "
        "`zaichik.connect(LINE)`. If it used to work, ask for a new one. On the broker's machine, "
        "`zaichik user list "
        "--access DIR` shows which tokens have expired, and `zaichik user token add NAME` makes "
        "one.",
        page="run/security.md#in-five-minutes",
    ),
    Section(
        code=Code.TOO_MANY_CONNECTIONS,
        title="the broker has no connection left for you",
        what="The broker has max_connections connections, or your address (or user) has its share "
        "of them. Or too many "
        "passwords are waiting to be checked.",
        why="Each connection takes a file descriptor, and the broker keeps some for its log. One "
        "client gets at most "
        "32 of 33 parts, so that others always get some.",
        rules="CLO-5 TOP-8",
        then="Use one connection for many topics instead of one for each. On the broker's machine "
        "`zaichik describe "
        "--connections` works even now: it shows who holds them, and `zaichik disconnect NUMBER` "
        "ends one. To raise "
        "the limit: `ulimit -n 65536`, then `zaichik serve --limit max_connections=20000`.",
        page="run/reliability.md#limits",
    ),
    Section(
        code=Code.SLOW_CONSUMER,
        title="the client didn't read its socket",
        what="The broker had output for the client, and for 10 seconds (write_timeout) the client "
        "read none of it. The "
        "connection is reset, so the client usually sees CONNECTION_LOST; `zaichik describe` and "
        "the broker's log have "
        "this name.",
        why="Output for a client that doesn't read would pile up. Being slow is fine: that's what "
        "credit is for. Not "
        "reading what you gave credit for isn't.",
        rules="LAG-3",
        then="Ask for less credit, so that what is sent fits into the socket's buffers: "
        "`subscribe(TOPIC, "
        "credit=100)`, or `zaichik subscribe TOPIC --credit 100`. And move long work out of the "
        "loop that reads.",
        chapter_number=12,
        page="run/reliability.md#hostile-behaviour",
    ),
    Section(
        code=Code.INTERNAL,
        title="the broker has a bug",
        what="An exception that nobody expected was raised while the broker served this "
        "connection. Other connections "
        "notice nothing.",
        why="A guard around each connection keeps a bug from taking the broker with it.",
        rules="ERR",
        then="Look for the traceback in the broker's log at that moment, and report it together "
        "with the request. Try "
        "whether the request alone does it again. Our client doesn't retry, as it could do the "
        "same to the next "
        "connection.",
        chapter_number=5,
        page="run/reliability.md#faults",
    ),
    Section(
        code=Code.TLS_REQUIRED,
        title="this port speaks TLS, and the client doesn't",
        what="The broker expected TLS, and the first bytes were a plain Hello.",
        why="Whatever came next could be read on the way, perhaps a token. So the broker refuses, "
        "and never falls "
        "back.",
        rules="ACC-1",
        then="Write zaichiks:// with an s: `zaichik topics --connect zaichiks://HOST:PORT`, or "
        '`zaichik.connect("zaichiks://TOKEN@HOST:PORT?pin=...")`. A login line from `zaichik user` '
        "has it already.",
        page="run/security.md#in-five-minutes",
    ),
)
