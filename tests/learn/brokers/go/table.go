package main

import "sort"

// perMessage is what a message of a table counts besides its key and payload.
const perMessage = 8

// A row is a message of a table that can be read.
type row struct {
	message
	offset   uint64
	accepted int64
	gone     bool // a hole: it stays in rows until these are swept
}

func (m message) isTombstone() bool { return len(m.key) > 0 && len(m.payload) == 0 }

// A table keeps the last message of each key, and all without one.
type table struct {
	topic  *topic
	rows   []*row // in the order of their offsets
	holes  int    // among the rows
	newest map[string]*row
	graves []*row // tombstones, the oldest first, and some that are gone

	count        int // of messages that are no tombstones
	bytes        int
	graveBytes   int
	deletedBelow uint64 // above the offset of every tombstone that has gone
}

func newTable(t *topic) *table { return &table{topic: t, newest: map[string]*row{}} }

// append stores all of a batch, or tells why nothing of it.
func (tb *table) append(all []message, meant bool, now int64) error {
	for _, m := range all {
		if m.isTombstone() && !meant {
			return invalid("batch")
		}
	}
	tb.expire(now)
	if tb.wouldBeFull(all) {
		return &fault{code: tableFull, text: "the table would hold more than it may; delete keys first"}
	}
	for _, m := range all {
		tb.put(&row{message: m, offset: tb.topic.next, accepted: now})
		tb.topic.next++
	}
	tb.bury(now)
	return nil
}

// wouldBeFull judges a batch by what would be there after it.
func (tb *table) wouldBeFull(all []message) bool {
	last := map[string]int{}
	for i, m := range all {
		last[string(m.key)] = i
	}
	count, bytes := tb.count, tb.bytes
	for i, m := range all {
		if len(m.key) > 0 {
			if last[string(m.key)] != i {
				continue
			}
			if old := tb.newest[string(m.key)]; old != nil && !old.isTombstone() {
				count--
				bytes -= old.size() + perMessage
			}
		}
		if !m.isTombstone() {
			count++
			bytes += m.size() + perMessage
		}
	}
	return uint64(count) > tb.topic.settings[capacity] || uint64(bytes) > tb.topic.settings[maxBytes]
}

func (tb *table) put(r *row) {
	if len(r.key) > 0 {
		if old := tb.newest[string(r.key)]; old != nil {
			tb.drop(old)
		}
		tb.newest[string(r.key)] = r
	}
	tb.rows = append(tb.rows, r)
	if r.isTombstone() {
		tb.graves = append(tb.graves, r)
		tb.graveBytes += r.size() + perMessage
	} else {
		tb.count++
		tb.bytes += r.size() + perMessage
	}
}

// drop makes a row a hole.
func (tb *table) drop(r *row) {
	r.gone = true
	tb.holes++
	if tb.newest[string(r.key)] == r {
		delete(tb.newest, string(r.key))
	}
	if r.isTombstone() {
		tb.graveBytes -= r.size() + perMessage
	} else {
		tb.count--
		tb.bytes -= r.size() + perMessage
	}
	if tb.holes > 100 && tb.holes*2 > len(tb.rows) {
		tb.rows, tb.holes = withoutHoles(tb.rows), 0
	}
}

func withoutHoles(rows []*row) []*row {
	kept := make([]*row, 0, len(rows))
	for _, r := range rows {
		if !r.gone {
			kept = append(kept, r)
		}
	}
	return kept
}

// expire drops what retention has ended by now, and what has been a tombstone for its time.
func (tb *table) expire(now int64) {
	for len(tb.rows) > 0 {
		oldest := tb.rows[0]
		if oldest.gone {
			tb.rows = tb.rows[1:]
			tb.holes--
			continue
		}
		if after(oldest.accepted, tb.topic.settings[retentionTTL]) > now {
			break
		}
		tb.drop(oldest)
		tb.topic.head = oldest.offset + 1
	}
	tb.bury(now)
}

// bury lets the oldest tombstones go, in time or because they are too many, but not the topic's last message.
func (tb *table) bury(now int64) {
	for len(tb.graves) > 0 {
		oldest := tb.graves[0]
		if !oldest.gone {
			old := after(oldest.accepted, tb.topic.settings[tombstones]) <= now
			many := uint64(tb.graveBytes)*4 > tb.topic.settings[maxBytes]
			if oldest.offset == tb.topic.next-1 || !old && !many {
				return
			}
			tb.drop(oldest)
			tb.deletedBelow = oldest.offset + 1
		}
		tb.graves = tb.graves[1:]
	}
}

// index finds the first row at or after an offset; it may be a hole.
func (tb *table) index(offset uint64) int {
	return sort.Search(len(tb.rows), func(i int) bool { return tb.rows[i].offset >= offset })
}

// row finds the message with an offset, if it is there.
func (tb *table) row(offset uint64) *row {
	i := tb.index(offset)
	if i == len(tb.rows) || tb.rows[i].offset != offset || tb.rows[i].gone {
		return nil
	}
	return tb.rows[i]
}

// following tells the offset of the first message at or after an offset.
func (tb *table) following(offset uint64) uint64 {
	for _, r := range tb.rows[tb.index(offset):] {
		if !r.gone {
			return r.offset
		}
	}
	return tb.topic.next
}

// since finds the first message accepted at a time or after it.
func (tb *table) since(us uint64) uint64 {
	for _, r := range tb.rows {
		if !r.gone && uint64(r.accepted) >= us {
			return r.offset
		}
	}
	return tb.topic.next
}

// stepTable adds the next event to buf, if there is one that may be sent.
func (s *subscription) stepTable(buf []byte, now int64) []byte {
	t, tb := s.topic, s.topic.table
	t.expire(now)
	if !s.fresh && tb.deletedBelow > max(s.next, s.told) {
		s.missing = true
	}
	if s.next >= t.head {
		s.next = max(s.next, min(tb.following(s.next), s.until))
	}
	switch {
	case !s.hasCredit() || s.next >= s.until:
	case s.next < t.head:
		to := min(t.head, s.until)
		var e encoder
		e.u64(s.next)
		e.u64(to)
		buf = appendFrame(buf, lagged, 0, s.id, e.buf)
		s.next = to
	case s.missing:
		s.missing, s.told = false, tb.deletedBelow
		var e encoder
		e.u64(tb.deletedBelow)
		buf = appendFrame(buf, deletionsMissed, 0, s.id, e.buf)
	case s.next < t.next:
		buf = s.deliverRows(buf)
	}
	if s.next >= s.until {
		buf = append(buf, s.end(endUntil, "it has reached its until")...)
	}
	return buf
}

// fittingRows are the messages of one time that there is credit for.
func (s *subscription) fittingRows() []*row {
	tb := s.topic.table
	until := s.until
	if s.next < s.again {
		until = min(until, s.again)
	}
	var found []*row
	size := 0
	for _, r := range tb.rows[tb.index(s.next):] {
		if r.gone {
			continue
		}
		if r.offset >= until || len(found) > 0 && r.accepted != found[0].accepted || size >= pieceBytes {
			break
		}
		n := s.count + len(found)
		if n > 0 && (n >= s.credit || s.bytes+size+r.size() > s.creditBytes) {
			break
		}
		size += r.size()
		found = append(found, r)
	}
	return found
}

// deliverRows adds a Messages frame, with HOLES if offsets are missing in it.
func (s *subscription) deliverRows(buf []byte) []byte {
	found := s.fittingRows()
	if len(found) == 0 {
		return buf
	}
	if s.fresh {
		s.fresh, s.told = false, s.topic.table.deletedBelow
		if s.position != nil {
			s.position.fresh, s.position.told = false, s.told
		}
	}
	flags := byte(0)
	if s.next < s.again {
		flags = flagRedelivered
	}
	var e encoder
	base, end := found[0].offset, found[len(found)-1].offset+1
	e.u64(base)
	e.u64(uint64(found[0].accepted))
	if end-base > uint64(len(found)) {
		flags |= flagHoles
		e.u32(uint32(len(found)))
		for _, r := range found {
			e.u32(uint32(r.offset - base))
		}
	}
	p := piece{first: base, end: end}
	batch := make([]message, len(found))
	for i, r := range found {
		batch[i] = r.message
		p.offsets = append(p.offsets, r.offset)
		p.bytes += r.size()
	}
	e.batch(batch)
	buf = appendFrame(buf, messages, flags, s.id, e.buf)
	s.pieces = append(s.pieces, p)
	s.count += len(found)
	s.bytes += p.bytes
	s.next = end
	if s.position != nil {
		s.position.delivered = max(s.position.delivered, s.next)
	}
	return buf
}

// settleRows takes messages below an offset out of flight.
func (s *subscription) settleRows(next uint64) {
	for len(s.pieces) > 0 {
		p := &s.pieces[0]
		for len(p.offsets) > 0 && p.offsets[0] < next {
			p.offsets = p.offsets[1:]
			s.count--
		}
		if len(p.offsets) > 0 {
			return
		}
		s.bytes -= p.bytes
		s.pieces = s.pieces[1:]
	}
}
