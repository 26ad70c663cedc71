package main

// A position is what a named subscription leaves behind: it outlives its reader by a minute.
type position struct {
	committed uint64
	delivered uint64        // everything below was delivered to some owner of the name
	reader    *subscription // nil while the reader is away
	expires   int64         // when it is forgotten, while the reader is away
	owner     uint64        // who had the name last; 0: somebody who did not say
	attempt   uint32
	replaced  []uint64 // owners that were replaced, the last at the end

	fresh bool   // it began at the earliest, and was sent nothing yet
	told  uint64 // of a table: deletedBelow when it was sent its first message; 0 if it began elsewhere
}

const (
	keepPosition = 60_000_000 // µs
	keepOwners   = 64
)

// refuses tells whether the name is not for this owner any more.
func (p *position) refuses(owner uint64, attempt uint32) error {
	for _, replaced := range p.replaced {
		if replaced == owner {
			return &fault{code: takenOver, field: "owner", text: "another owner has taken the name over"}
		}
	}
	if p.owner == owner && attempt <= p.attempt {
		return &fault{code: takenOver, field: "attempt", text: "a later attempt has been made"}
	}
	return nil
}

// give makes somebody the owner, and remembers the one before.
func (p *position) give(owner uint64, attempt uint32) {
	if p.owner != 0 && p.owner != owner {
		p.replaced = append(p.replaced, p.owner)
		if len(p.replaced) > keepOwners {
			p.replaced = p.replaced[1:]
		}
	}
	p.owner, p.attempt = owner, attempt
}

// A piece is one Messages frame that is not settled altogether.
type piece struct {
	first, end uint64
	bytes      int
	offsets    []uint64 // of a table: of the messages that are not settled
}

type subscription struct {
	id       uint32
	conn     *conn
	topic    *topic
	name     string
	position *position // nil: anonymous

	start       uint64
	next        uint64 // to be delivered
	committed   uint64
	until       uint64
	again       uint64 // what lies below was delivered to an earlier owner of the name
	credit      int
	creditBytes int

	fresh   bool   // it began at the earliest, and was sent nothing yet
	told    uint64 // of a table: the deletedBelow that it was told, or need not be
	missing bool   // a tombstone that it had not reached has gone

	pieces  []piece
	count   int    // messages in flight
	bytes   int    // of the pieces in flight
	queue   *queue // nil: its name is not shared
	owner   uint64
	attempt uint32
	timeout int64                   // µs; 0: none
	held    map[uint64]*openMessage // by ticket
	overdue map[uint64]int          // bytes of what it had for too long, by ticket: they still use its credit

	ended bool
	over  bool // taken over, or its topic was deleted: commits move no position
}

// pieceBytes is how much a subscription may send before it is another one's turn.
const pieceBytes = 64 << 10

func (s *subscription) hasCredit() bool {
	return s.count == 0 || s.count < s.credit && s.bytes < s.creditBytes
}

// step adds the next event to buf, if there is one that may be sent.
func (s *subscription) step(buf []byte, now int64) []byte {
	if s.ended {
		return buf
	}
	if s.queue != nil {
		return s.stepQueue(buf, now)
	}
	t := s.topic
	if t.table != nil {
		return s.stepTable(buf, now)
	}
	t.expire(now)
	if s.next < t.head && s.hasCredit() {
		to := min(t.head, s.until)
		var e encoder
		e.u64(s.next)
		e.u64(to)
		buf = appendFrame(buf, lagged, 0, s.id, e.buf)
		s.next = to
	} else if s.next >= t.head && s.next < min(t.next, s.until) && s.hasCredit() {
		buf = s.deliver(buf)
	}
	if s.next >= s.until {
		buf = append(buf, s.end(endUntil, "it has reached its until")...)
	}
	return buf
}

// deliver adds a Messages frame with as many messages of one batch as there is credit for.
func (s *subscription) deliver(buf []byte) []byte {
	from := s.topic.at(s.next)
	rest := from.messages[s.next-from.first:]
	if s.until-s.next < uint64(len(rest)) {
		rest = rest[:s.until-s.next]
	}
	flags := byte(0)
	if s.next < s.again {
		flags = flagRedelivered
		if s.again-s.next < uint64(len(rest)) {
			rest = rest[:s.again-s.next]
		}
	}
	n, size := 0, 0
	for _, m := range rest {
		if s.count+n >= s.credit || s.bytes+size+m.size() > s.creditBytes || size >= pieceBytes {
			break
		}
		size += m.size()
		n++
	}
	if n == 0 {
		if s.count > 0 {
			return buf
		}
		n, size = 1, rest[0].size() // one message is always allowed
	}
	var e encoder
	e.u64(s.next)
	e.u64(uint64(from.accepted))
	e.batch(rest[:n])
	buf = appendFrame(buf, messages, flags, s.id, e.buf)
	s.pieces = append(s.pieces, piece{s.next, s.next + uint64(n), size, nil})
	s.count += n
	s.bytes += size
	s.next += uint64(n)
	if s.position != nil {
		s.position.delivered = max(s.position.delivered, s.next)
	}
	return buf
}

// settle carries out a commit.
func (s *subscription) settle(next uint64) error {
	if next > s.next {
		return &fault{code: notInFlight, field: "next", text: "not all of this has been delivered"}
	}
	if next <= s.committed {
		return nil
	}
	if s.topic.table != nil {
		s.settleRows(next)
	}
	for len(s.pieces) > 0 && s.pieces[0].end <= next {
		s.count -= int(s.pieces[0].end - s.pieces[0].first)
		s.bytes -= s.pieces[0].bytes
		s.pieces = s.pieces[1:]
	}
	if s.topic.table == nil && len(s.pieces) > 0 && s.pieces[0].first < next {
		s.count -= int(next - s.pieces[0].first)
		s.pieces[0].first = next
	}
	s.committed = next
	if s.position != nil && !s.over {
		s.position.committed = next
	}
	return nil
}

// end ends the subscription, and returns the event that says so.
func (s *subscription) end(code uint16, text string) []byte {
	s.ended = true
	s.over = code != endUntil
	delete(s.topic.subscriptions, s)
	if s.queue != nil {
		s.queue.leave(s)
	}
	var e encoder
	e.u16(code)
	e.u64(s.next)
	e.str(text)
	return appendFrame(nil, subscriptionEnded, 0, s.id, e.buf)
}

// leave takes the subscription off its topic; its position stays for a while.
func (s *subscription) leave(now int64, forget bool) {
	s.ended = true
	delete(s.topic.subscriptions, s)
	if s.queue != nil {
		s.queue.leave(s)
		if forget {
			delete(s.topic.queues, s.name)
		}
	}
	if p := s.position; p != nil && p.reader == s {
		p.reader = nil
		p.expires = now + keepPosition
		if forget {
			delete(s.topic.positions, s.name)
		}
	}
}
