"""TLS over any stream: bytes are encrypted on their way, and each end knows who the other is.

    send:     pieces ──▶ encrypt ──▶ stream          plain on the left,
    receive:  bytes  ◀── decrypt ◀── stream          ciphertext on the right

OpenSSL encrypts in memory here and touches no socket (see `TlsEngine`). So TLS runs over anything
that has the calls of `Stream`, a network in memory included, and has those calls itself. Keeping
their promises takes some care; each of these has a test:

* Bytes count as sent when their ciphertext has left, not when it was made: nothing that a caller
  believes to be sent waits here for a call that may never come. Until then the caller offers the
  same bytes again, and they are not encrypted again.
* A turn is bounded in records as well as in bytes: a record of one byte costs as much to decrypt as
  one of a thousand.
* There may be bytes here that no socket will announce: they came with the last message of the
  handshake, or were more than a turn's worth. `is_drained` says so, and the calls that wait do not
  wait then.
* The end is announced, by a message called close_notify. A connection that ends without it was cut
  off. Our frames have lengths, so nobody is deceived: it ends in the same way, but `is_truncated`
  is set.
"""

# Not compiled: its class is a `Stream`, whose parent is anyio's.

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy

import anyio
from anyio.lowlevel import checkpoint

from zaichik.net.callback_reader import CallbackReader
from zaichik.net.socket_stream import first_bytes, without_first
from zaichik.net.stream import GONE, RECEIVE_BYTES, Buffer, Stream
from zaichik.net.tls_engine import TlsEngine, TlsFailed

# Returned by one `receive_nowait`, at most; about as much ciphertext may be left over.
TURN_BYTES = 64 * 1024

# In one call. A step decrypts one record, which has 16 KiB at most; but a message of TLS itself
# takes as long as many steps.
TURN_STEPS = 64
MESSAGE_STEPS = 16

# Encrypted at once; as much waits here if the peer does not read.
SEAL_BYTES = 64 * 1024

# Of ciphertext that waits, including the replies that TLS itself owes to the peer.
HELD_BYTES = 2 * SEAL_BYTES


class _Shared(threading.local):
    """Where a thread decrypts to.

    Nothing comes between filling it and copying from it, so one is enough for all.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(TURN_BYTES))


_shared = _Shared()


class TlsStream(Stream):
    """An encrypted stream.

    The stream below belongs to it from then on. `tls_handshake.handshake` makes one.

    Args:
        stream: the stream below.
        engine: one whose handshake is complete.

    Attributes:
        engine: it knows what was agreed on: `engine.state.version()` and the like.
        is_truncated: the peer's bytes have ended without a close_notify.
    """

    def __init__(self, stream: Stream, engine: TlsEngine) -> None:
        self._stream = stream
        self.engine = engine
        self._sealed: list[Buffer] = []  # ciphertext that has not left yet
        self._owed = 0  # bytes of the caller's that are in it
        self._owed_start = b""
        self._end: Exception | None = None  # of what can be received; it stays
        self._is_aborted = False
        # There may be bytes that came with the last message of the handshake.
        self.is_drained = False
        self.is_truncated = False

    # -- receiving

    def receive_nowait(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        """See `Stream`.

        What one call decrypts is bounded: it may return nothing, and more is there.
        """
        view = _shared.view[:max_bytes]
        size = 0
        if self._end is None:
            size = self._fill(view)
        if self._end is not None and not size:
            # Without the traceback, which would keep alive what the connection held.
            raise copy(self._end)
        return bytes(view[:size])

    def _fill(self, view: memoryview) -> int:
        """Decrypts into the view; returns how many bytes.

        An end, which may come after some, is noted.
        """
        size = 0
        steps = TURN_STEPS
        is_last = False  # of what the stream below has received
        self.is_drained = False
        try:
            while steps > 0 and size < len(view):
                steps -= 1
                decrypted = self.engine.decrypt(view[size:])
                if decrypted is not None:
                    size += decrypted
                    # It was a message of TLS itself.
                    if not decrypted:
                        steps -= MESSAGE_STEPS
                elif is_last:
                    self.is_drained = True
                    break
                else:
                    data = self._stream.receive_nowait(TURN_BYTES)
                    self.engine.feed(data)
                    is_last = len(data) < TURN_BYTES
            self._reply()
        except (anyio.EndOfStream, *GONE) as error:
            self._end = copy(error)
            self.is_truncated = isinstance(error, anyio.EndOfStream) and not self.engine.is_over
        return size

    def _reply(self) -> None:
        """Sends what TLS itself has to say, such as new keys that the other end has asked for."""
        output = self.engine.output()
        if output:
            self._sealed.append(output)
            with suppress(*GONE):  # sending will find out; what was received counts
                self._flush()
            if sum(map(len, self._sealed)) > HELD_BYTES:
                text = "the other end makes TLS reply, but does not read the replies"
                raise TlsFailed("UNREAD", text)

    async def each_readable(self, callback: Callable[[], bool]) -> None:
        """See `Stream`."""
        await self.each_readable_above(self._stream, callback)

    @property
    def callback_reader(self) -> CallbackReader | None:
        """See `Stream`."""
        return self._stream.callback_reader

    async def wait_readable(self) -> None:
        """See `Stream`."""
        if self.is_drained:
            await self._stream.wait_readable()
        else:
            await checkpoint()

    # -- sending

    def send_pieces_nowait(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """See `Stream`. The beginning of what is returned may be encrypted already.

        Raises:
            ValueError: this does not begin with what the last call has returned.
        """
        if isinstance(self._end, anyio.ClosedResourceError):
            raise copy(self._end)
        if first_bytes(pieces, len(self._owed_start)) != self._owed_start:
            raise ValueError("a send must begin with the bytes that the last one has not taken")
        left = list(pieces)
        while self._flush():
            left = without_first(left, self._owed)
            data = first_bytes(left, SEAL_BYTES)
            self._owed = len(data)
            self._owed_start = data[:16]
            if not data:
                break
            self._sealed += self.engine.encrypt(data)
        return left

    def _flush(self) -> bool:
        """Sends ciphertext as far as the stream takes it at once.

        Returns whether all of it has left.
        """
        output = self.engine.output()
        if output:
            self._sealed.append(output)
        if self._sealed:
            self._sealed = self._stream.send_pieces_nowait(self._sealed)
        return not self._sealed

    async def _flush_all(self) -> None:
        while not self._flush():
            await self.wait_writable()

    async def wait_writable(self) -> None:
        """See `Stream`."""
        await self._stream.wait_writable()

    # -- the end

    async def send_eof(self) -> None:
        """Send a close_notify, and nothing after it; receiving goes on.

        Waits while the peer reads nothing.
        """
        self.engine.finish()
        await self._flush_all()
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the stream below.

        Before that, send a close_notify if it goes at once, and this is not a reset.
        """
        if not self._is_aborted:
            self.engine.finish()
            with suppress(*GONE):
                self._flush()
        self._end = anyio.ClosedResourceError()
        await self._stream.aclose()

    @property
    def unacknowledged_bytes(self) -> int | None:
        """How many encrypted bytes the peer's system has not acknowledged yet, if that is known."""
        return self._stream.unacknowledged_bytes

    def reset(self) -> None:
        """See `Stream`."""
        self._is_aborted = True
        self._stream.reset()

    @property
    def is_reset(self) -> bool:
        """See `Stream`."""
        return self._stream.is_reset
