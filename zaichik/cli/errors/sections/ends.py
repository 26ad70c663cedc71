"""Why a broker ends a subscription unasked, and why it closes a connection."""

from zaichik.cli.errors.section import Section
from zaichik_protocol import EndCode, GoAwayCode

ENDS = (
    Section(
        code=EndCode.UNTIL,
        title="the subscription reached its `until`",
        what="The subscription's position is at the offset that it was to stop before. All that is "
        "below was "
        "delivered, or is gone (then Lagged came first).",
        why="You asked for it. A program that reads what there is now must be told where now ends.",
        rules="RET-4",
        then="Nothing: loops end by themselves, and this isn't an error. What you have handled may "
        "still be committed. "
        "A subscription with a name keeps it until you leave its `async with` block.",
        chapter_number=10,
    ),
    Section(
        code=EndCode.TAKEN_OVER,
        title="another subscription took over the name",
        what="A second reader asked for the same name in this topic, and got it. This one ended, "
        "and what it had not "
        "committed is delivered to the other one.",
        why="A name has one reader. The newest wins, so that a program that hangs can be replaced.",
        rules="CMT-3",
        then="If you started two programs with one name, give each its own. If this one was "
        "replaced because it hung, "
        "let it end. Our client doesn't take the name back; to do that, subscribe again.",
        page="run/reliability.md#named-subscriptions",
    ),
    Section(
        code=EndCode.FORBIDDEN,
        title="the right to read the topic was withdrawn",
        what="The broker's rules were changed while the subscription was open, and no longer allow "
        "it.",
        why="A right that is withdrawn must end what it allowed, not only what is asked for later.",
        rules="ACC-4",
        then="Ask the broker's operator. There, `zaichik access check DIR USER subscribe TOPIC` "
        "names the line that "
        "decides. A named position is kept for its usual time, but no messages are kept for it.",
        page="run/security.md#who-may-do-what",
    ),
    Section(
        code=EndCode.DELETED,
        title="the topic was deleted",
        what="Somebody deleted the topic while it was being read. Its messages and all positions "
        "in it are gone.",
        why="A reader that just went on waiting would wait for ever, or get messages of the next "
        "topic of that name.",
        rules="TOP-6",
        then="Subscribe again if there is to be another topic of that name: its offsets begin at "
        "0, and its epoch is a "
        "new one. Discard offsets that you saved. To keep others from deleting topics, give the "
        "broker users and "
        "rules.",
        page="run/security.md#who-may-do-what",
    ),
    Section(
        code=EndCode.DAMAGED,
        title="what comes next is damaged on the disk",
        what="The reader has come to an offset that the broker can't read from its disk: a "
        "checksum is wrong.",
        why="Skipping it would lose messages in silence.",
        rules="DUR-7",
        then="What comes after the damage may be fine: `zaichik check DIR`, with the broker "
        "stopped, says so, and "
        "`zaichik check DIR --repair` makes it readable; readers are then sent Lagged for what is "
        "lost. Copy the "
        "folder first.",
        chapter_number=17,
        page="run/durability.md#what-a-start-finds",
    ),
)

GOODBYES = (
    Section(
        code=GoAwayCode.STOPPING,
        title="the broker is stopping",
        what="The broker was told to stop. It has answered what it had read and delivered what it "
        "had acknowledged.",
        why="A goodbye tells a planned stop from a crash, and comes after everything that is still "
        "owed.",
        rules="CLO-2",
        then="Our client tries to reconnect for 60 seconds; `connect(..., reconnect=300)` or "
        "--reconnect 5m waits "
        "longer. If the broker is to run again: `zaichik serve`. Topics in memory are gone then, "
        "durable ones aren't.",
        chapter_number=13,
        page="run/reliability.md#faults",
    ),
    Section(
        code=GoAwayCode.DISCONNECTED,
        title="an operator ended this connection",
        what="Somebody ended this connection with `zaichik disconnect`, or the Disconnect request.",
        why="An operator must be able to make room. Requests that weren't carried out yet were "
        "dropped.",
        rules="CLO-4",
        then="Nothing keeps you from connecting again, and our client does, and retries. If it "
        "happens repeatedly, ask "
        "the operator. To keep a client out for good, remove its login: `zaichik user token remove "
        "NAME ID`.",
        page="use/describe.md#kind-3-connections",
    ),
    Section(
        code=GoAwayCode.STORAGE,
        title="the broker's disk has failed",
        what="A sync of the broker's disk failed, or a write for another reason than lack of room. "
        "The broker ended "
        "with exit code 74. Publishes without an answer may or may not be on the disk.",
        why="After a failed sync nobody knows what the disk holds. A second one can succeed "
        "although the first one's "
        "data is lost, so nothing is tried again.",
        rules="DUR-6",
        then="Look at the disk before anything else (`dmesg`, `smartctl`). Then `zaichik check "
        "DIR`, and start the "
        "broker again. Our client keeps its batches' numbers and sends them again, so nothing is "
        "stored twice.",
        chapter_number=17,
        page="run/durability.md#operations",
    ),
    Section(
        code=GoAwayCode.CREDENTIALS_ENDED,
        title="the login has expired, or was removed",
        what="The token, password or user with which this connection logged in is no longer valid.",
        why="Removing a login would be worth little if those who use it could stay.",
        rules="ACC-4",
        then="Get a new login line, and keep it with `zaichik login`. On the broker's machine, "
        "`zaichik user list` "
        "shows what has expired, and `zaichik user token add NAME --expires 90d` makes another "
        "one.",
        page="run/security.md#users-tokens-and-passwords",
    ),
)
