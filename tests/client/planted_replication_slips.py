"""Bugs in acknowledgements after replication: what is lost is acknowledged, or given out.

They are slips as those in `planted_slips.py`, in a table of their own.
"""

from planted_slips import Slip

PUBLISHING = "client/replication/test_publishing.py"
PRODUCING = "client/replication/test_producing.py"
HOLDING = "client/replication/test_holding_back.py"
WATERMARK = "client/replication/test_watermark.py"

FOLLOWER = "client.replication.follower:WatermarkFollower"

REPLICATION_SLIPS = [
    Slip(
        "the watermark at its offset acknowledges a message",
        "client.replication.acknowledgement:Acknowledgement.expect",
        "self.end = start + stored",
        "self.end = start",
        PUBLISHING,
    ),
    Slip(
        "a message in a gap is acknowledged",
        f"{FOLLOWER}._verdict",
        "missing is None",
        "True",
        PUBLISHING,
    ),
    Slip(
        "nobody asks whether the topic was made anew",
        f"{FOLLOWER}._acknowledge",
        "await self._look()",
        "pass",
        PUBLISHING,
    ),
    Slip(
        "who waits in a topic that was made anew waits for ever",
        f"{FOLLOWER}._look_after",
        "await self._look()",
        "pass",
        PUBLISHING,
    ),
    Slip(
        "the watermark of another epoch counts",
        f"{FOLLOWER}._pass_on",
        "watermark.epoch == self.epoch",
        "watermark",
        PUBLISHING,
    ),
    Slip(
        "a watermark that came before the answer is not looked at again",
        f"{FOLLOWER}.add",
        "self._wake()",
        "pass",
        PUBLISHING,
    ),
    Slip(
        "a topic that evicts can be acknowledged",
        "client.replication.lossless:check_lossless",
        "settings['overflow'] != Overflow.REJECT",
        "False",
        PUBLISHING,
    ),
    Slip(
        "who waits for a client that is closed waits for ever",
        f"{FOLLOWER}._end",
        "one.is_expected",
        "False",
        PUBLISHING,
    ),
    Slip(
        "gaps below those that a watermark has are forgotten",
        "client.replication.watermark:Watermark.first_missing",
        "start < self.gaps_from",
        "False",
        WATERMARK,
    ),
    Slip(
        "what is stored is settled for a producer",
        "client.producer:Producer._settle",
        "promised is None",
        "True",
        PRODUCING,
    ),
    Slip(
        "a message above the watermark is given out",
        "client.replication.held_inbox:HeldInbox._is_replicated",
        "watermark.next < end",
        "False",
        HOLDING,
    ),
    Slip(
        "a topic that is deleted leaves its readers waiting",
        "client.replication.held_inbox:HeldInbox.put",
        "event.code != EndCode.UNTIL",
        "False",
        HOLDING,
    ),
]
