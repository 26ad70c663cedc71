"""TLS without a socket: ciphertext in, bytes out, and the other way round.

OpenSSL reads from one queue in memory and writes to another (it calls them BIOs). So nothing here
ever waits, and "not all here yet" is a value. `TlsStream` moves the ciphertext.

OpenSSL is given one record at a time. Given more, it carries out every message of TLS itself that
comes before the next byte of data, and a peer can send hundreds of them in few bytes: a KeyUpdate
has 27 and costs a tenth of a millisecond. Besides, its queues never give back the memory of the
most they ever held.
"""

# Not compiled: its exception has a parent of anyio's.

import hashlib
import re
import ssl
from contextlib import suppress
from typing import Any

import anyio

# What OpenSSL's errors mean, alerts of the other end included; words in their names tell them
# apart.
_MEANINGS = (
    (
        r"WRONG_VERSION_NUMBER|HTTP_REQUEST|PACKET_LENGTH_TOO_LONG",
        "the port does not speak TLS; ask for its TLS port",
    ),
    (
        r"PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL",
        "the port does not speak TLS, or no version since 1.2",
    ),
    (
        r"CERTIFICATE_REQUIRED|DID_NOT_RETURN_A_CERTIFICATE",
        "a certificate of the client is required",
    ),
    (
        r"HANDSHAKE_FAILURE|NO_SHARED_CIPHER",
        "the two ends have no cipher in common, or one shows no certificate",
    ),
    (
        r"ALERT_(UNKNOWN_CA|.*CERTIFICATE)",
        "the other end does not accept the certificate that it was shown",
    ),
)
# All that OpenSSL says of a record since 3.2, be it none at all or one that was changed; another
# attempt may end otherwise. A Python that is older than its OpenSSL has no name for it, but
# OpenSSL's words.
_BAD_RECORD, _BAD_RECORD_WORDS = "RECORD_LAYER_FAILURE", "record layer failure"

# OpenSSL's X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, for which Python has no name.
_SELF_SIGNED = 18

_TYPES = range(20, 25)  # values that the first byte of a record may have
_HEADER = 5  # bytes: a type, a version, and the length of what follows
RECORD_BYTES = 16 * 1024  # of data in a record, at most
_LARGEST = RECORD_BYTES + 2048  # encrypted
MOST_MESSAGES = 32  # of TLS itself, between two records of data


class TlsFailed(anyio.BrokenResourceError):
    """TLS cannot go on, and the connection with it.

    Args:
        reason: OpenSSL's name for it, or one in its style; for a log.
        text: a sentence for a user.
        is_hopeless: whether another attempt would end the same.
    """

    def __init__(self, reason: str, text: str, *, is_hopeless: bool = False) -> None:
        super().__init__(reason, text)
        self.reason = reason
        self.is_hopeless = is_hopeless

    def __str__(self) -> str:
        return str(self.args[1])

    @classmethod
    def from_error(cls, error: ssl.SSLError) -> "TlsFailed":
        """Returns OpenSSL's error as a sentence."""
        reason = error.reason
        if not reason:
            reason = type(error).__name__
            if _BAD_RECORD_WORDS in str(error):
                reason = _BAD_RECORD
        if isinstance(error, ssl.SSLCertVerificationError):
            why = error.verify_message.rstrip(".")
            text = f"the certificate of the other end is not accepted: {why}"
            if error.verify_code == _SELF_SIGNED:
                text += ". One that the broker made itself needs the pin of its login line"
            return cls(reason, text, is_hopeless=True)
        for words, meaning in _MEANINGS:
            if re.search(words, reason):
                return cls(reason, f"{meaning} ({reason})", is_hopeless=True)
        if reason == _BAD_RECORD:
            text = f"the port does not speak TLS, or what it sends is changed on the way ({reason})"
            return cls(reason, text)
        return cls(reason, f"TLS failed: {reason}")

    @classmethod
    def other_certificate(cls, shown: str) -> "TlsFailed":
        """Returns the error for a certificate with another pin than the ones expected."""
        text = (
            f"the broker shows another certificate ({shown}) than the one you were given. If it "
            "was renewed, ask for the new login line; if not, somebody is intercepting the "
            "connection. Nothing was sent."
        )
        return cls("OTHER_CERTIFICATE", text, is_hopeless=True)


class TlsEngine:
    """One end of a TLS connection.

    Args:
        context: a server's or a client's; which one decides who begins.
        host: the name that the certificate of the other end must be for, if the context checks
            names.

    Attributes:
        state: OpenSSL's; it has what was agreed on, such as the version and the other end's
            certificate.
        is_over: the other end has announced that it will send no more.
    """

    def __init__(self, context: ssl.SSLContext, host: str = "") -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        is_server = context.protocol == ssl.PROTOCOL_TLS_SERVER
        self.state = context.wrap_bio(self._incoming, self._outgoing, is_server, host or None)
        self.is_over = False
        self._input = b""  # ciphertext that OpenSSL was not given yet, from `_at` on
        self._at = 0
        self._messages = 0

    def do_handshake(self) -> bool:
        """Goes on with the handshake as far as the bytes fed so far allow.

        Returns whether it is complete.

        Raises:
            TlsFailed: what is wrong. There may be output: an alert for the other end.
        """
        while True:
            try:
                self.state.do_handshake()
            except ssl.SSLWantReadError:
                if not self._next_record():
                    return False
            except ssl.SSLError as error:
                raise TlsFailed.from_error(error) from error
            else:
                return True

    @property
    def certificate(self) -> dict[str, Any]:
        """The other end's certificate as `ssl` describes it.

        It is {} if there is none, or no CA was asked about it.
        """
        return dict(self.state.getpeercert() or {})

    @property
    def pin(self) -> str:
        """The pin of the other end's certificate."""
        return pin_of(self.state.getpeercert(binary_form=True) or b"")

    def feed(self, data: bytes) -> None:
        """Add ciphertext that was received."""
        self._input = self._input[self._at :] + data
        self._at = 0

    def _next_record(self) -> bool:
        """Gives the next record to OpenSSL; returns whether one is complete.

        OpenSSL refuses what is not a record.
        """
        data = self._input
        at = self._at
        end = at + _HEADER + int.from_bytes(data[at + 3 : at + _HEADER], "big")
        if at + _HEADER <= len(data):
            is_record = data[at] in _TYPES and end - at <= _HEADER + _LARGEST
            if not is_record:
                end = len(data)
        if end > len(data):
            # An idle connection keeps no more than a part of a record.
            self._input = data[at:]
            self._at = 0
            return False
        self._incoming.write(memoryview(data)[at:end])
        self._at = end
        if end == len(data):
            self._input = b""
            self._at = 0
        return True

    def decrypt(self, view: memoryview) -> int | None:
        """Decrypts into the view; returns how many bytes.

        They come from at most one record: 0 bytes, if that is a message of TLS itself. None: no
        record is complete.

        Raises:
            EndOfStream: the other end sends no more, and has said so by a close_notify.
            TlsFailed: what is wrong; it may be an alert of the other end.
        """
        if not self.state.pending() and not self._next_record():
            return None
        try:
            size = int(self.state.read(len(view), view))
            if size:
                self._messages = 0
                return size
        except ssl.SSLWantReadError:
            self._messages += 1
            if self._messages > MOST_MESSAGES:
                text = "the other end keeps TLS busy, and sends nothing"
                raise TlsFailed("TOO_MANY_MESSAGES", text) from None
            return 0
        except ssl.SSLZeroReturnError:
            pass
        except ssl.SSLError as error:
            raise TlsFailed.from_error(error) from error
        self.is_over = True
        raise anyio.EndOfStream

    def encrypt(self, data: bytes) -> list[bytes]:
        """Returns the ciphertext to send.

        Raises:
            TlsFailed: TLS has failed or ended before.
        """
        view = memoryview(data)
        records: list[bytes] = []
        try:
            while view:
                taken = self.state.write(view[:RECORD_BYTES])
                view = view[taken:]
                records.append(self._outgoing.read())
        except ssl.SSLError as error:
            raise TlsFailed.from_error(error) from error
        return records

    def finish(self) -> None:
        """Announce the end of what is sent, by a close_notify."""
        # It also looks for that of the other end, which need not be here.
        with suppress(ssl.SSLError):
            self.state.unwrap()

    def output(self) -> bytes:
        """Returns what TLS itself has to say.

        Send it before anything that is encrypted later.
        """
        return self._outgoing.read()


def pin_of(certificate: bytes) -> str:
    """Returns the pin of a certificate, given in DER.

    It is "sha256:" and the certificate's hash in 64 hexadecimal digits.
    """
    return "sha256:" + hashlib.sha256(certificate).hexdigest()
