package main

// hand tells how many messages of shared names the client has, and whether one of them is suspect.
func (c *conn) hand() (size int, suspect bool) {
	for _, s := range c.subscriptions {
		size += len(s.held) + len(s.overdue)
		for _, m := range s.held {
			suspect = suspect || m.suspect
		}
	}
	return size, suspect
}

// lost ends all subscriptions of a client that went without a word.
func (c *conn) lost(now int64) {
	size, _ := c.hand()
	for _, s := range c.subscriptions {
		if s.queue != nil && !s.ended {
			s.queue.lost(s, now, size == 1)
		}
	}
	c.finish(now)
}

// hold gives a worker a message.
func (s *subscription) hold(m *openMessage, now int64) {
	m.late = never
	if s.timeout > 0 {
		m.late = now + s.timeout
	}
	s.held[m.ticket] = m
	s.count++
	s.bytes += m.size
}

// fits tells whether a worker has credit for a message of a size.
func (s *subscription) fits(size int) bool {
	return s.count == 0 || s.count < s.credit && s.bytes < s.creditBytes && s.bytes+size <= s.creditBytes
}

// stepQueue adds the next event of a worker to buf, if there is one that may be sent.
func (s *subscription) stepQueue(buf []byte, now int64) []byte {
	t, q := s.topic, s.queue
	t.expire(now)
	if !s.hasCredit() {
		return buf
	}
	m := q.offer(s, now)
	if m == nil {
		return buf
	}
	found, accepted, ok := t.read(m.offset)
	if !ok {
		var e encoder
		e.u64(m.offset)
		e.u64(q.skip(m))
		return appendFrame(buf, lagged, 0, s.id, e.buf)
	}
	if !s.fits(found.size()) {
		return buf
	}
	handed := []message{found}
	first := s.handOut(m, found, now)
	flags := flagTickets
	if m.again {
		flags |= flagRedelivered
	}
	// New ones of the same batch go together; one that was handed out before goes alone.
	for !m.again && !q.byKey && len(handed) < runMessages && q.next < t.next {
		following, at, ok := t.read(q.next)
		if !ok || at != accepted || !s.fits(following.size()) || t.table != nil || len(q.open) >= maxOpen {
			break
		}
		s.handOut(&openMessage{offset: q.next, key: string(following.key)}, following, now)
		handed = append(handed, following)
	}
	for _, each := range s.held {
		each.again = true
	}
	var e encoder
	e.u64(m.offset)
	e.u64(uint64(accepted))
	e.u64(first)
	e.u16(uint16(min(m.count, 65535)))
	e.batch(handed)
	return appendFrame(buf, messages, flags, s.id, e.buf)
}

// handOut gives a worker what was offered, and tells its ticket.
func (s *subscription) handOut(m *openMessage, found message, now int64) uint64 {
	q, b := s.queue, s.conn.broker
	if !q.take(m) {
		q.open[m.offset] = m
		q.next = m.offset + 1
	}
	b.lastTicket++
	m.ticket = b.lastTicket
	m.count++
	m.size = found.size()
	s.hold(m, now)
	return m.ticket
}

// A settlement is what a Settle says of its tickets.
type settlement struct {
	outcome byte
	delay   int64 // µs
	reason  string
}

// settleTickets carries out a Settle, and tells which tickets were not open here.
func (s *subscription) settleTickets(tickets []uint64, what settlement, now int64) []uint64 {
	size, _ := s.conn.hand()
	var late []uint64
	for _, ticket := range tickets {
		m := s.held[ticket]
		switch {
		case m == nil:
			late = append(late, ticket)
			if bytes, ok := s.overdue[ticket]; ok && what.outcome != extend {
				delete(s.overdue, ticket)
				s.count--
				s.bytes -= bytes
			}
		case what.outcome == extend:
			m.late = now + what.delay
		default:
			delete(s.held, ticket)
			s.count--
			s.bytes -= m.size
			s.queue.settled(m, what, now, size == 1)
		}
	}
	s.queue.wake()
	s.conn.wakeUp()
	return late
}
