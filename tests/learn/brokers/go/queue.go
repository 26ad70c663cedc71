package main

import (
	"cmp"
	"math"
	"slices"
)

// Outcomes of Settle.
const (
	done byte = iota
	retry
	reject
	release
	giveBack
	lose
	extend
)

const (
	never       = math.MaxInt64
	keepAbsent  = 2_000_000 // µs that the owner of a lost worker has to come back
	waitAgain   = 1_000_000 // µs, before what failed comes again, if nobody says when
	maxOpen     = 10_000
	runMessages = 1_000 // at most so many new messages in a frame
)

// An openMessage was handed out and is neither done nor dead, or waits for another one of its key.
type openMessage struct {
	offset  uint64
	key     string
	count   int    // deliveries that count, this one included
	again   bool   // it was handed out before, whether or not that counts
	suspect bool   // it may have ended a worker
	ready   int64  // while it waits: when it may be handed out
	ticket  uint64 // of the last delivery
	size    int
	late    int64 // while a worker has it: when it is lost
}

type deadMessage struct {
	deliveries int
	died       int64
	reason     string
}

// What a worker had whose connection is lost waits here for its owner.
type absence struct {
	owner   uint64
	attempt uint32
	held    map[uint64]*openMessage
	until   int64
	alone   bool // its connection had one message
}

// A queue is a shared name. Each open message is held by a worker, or is with an absent one, or is waiting.
type queue struct {
	topic         *topic
	next          uint64 // to be handed out
	maxDeliveries int
	byKey         bool

	open    map[uint64]*openMessage
	waiting []*openMessage // those that wait longest come first
	dead    map[uint64]deadMessage
	workers map[*subscription]bool
	absent  []absence
}

func newQueue(t *topic, start uint64, w wish) *queue {
	return &queue{
		topic: t, next: start, maxDeliveries: w.maxDeliveries, byKey: w.byKey,
		open: map[uint64]*openMessage{}, dead: map[uint64]deadMessage{}, workers: map[*subscription]bool{},
	}
}

// start is the first offset that was not handed out yet.
func (q *queue) start() uint64 {
	start := q.next
	for _, m := range q.waiting {
		if !m.again {
			start = min(start, m.offset)
		}
	}
	return start
}

// committed is the first offset that is not settled.
func (q *queue) committed() uint64 {
	committed := q.next
	for offset := range q.open {
		committed = min(committed, offset)
	}
	return committed
}

// needed is the first offset that may be handed out again.
func (q *queue) needed() uint64 {
	needed := q.committed()
	for offset := range q.dead {
		needed = min(needed, offset)
	}
	return needed
}

// admits tells whether a worker may join.
func (q *queue) admits(w wish) error {
	for s := range q.workers {
		if w.owner != 0 && s.owner == w.owner && w.attempt <= s.attempt {
			return &fault{code: takenOver, field: "attempt", text: "a later attempt has been made"}
		}
	}
	for _, a := range q.absent {
		if w.owner != 0 && a.owner == w.owner && w.attempt <= a.attempt {
			return &fault{code: takenOver, field: "attempt", text: "a later attempt has been made"}
		}
	}
	used := len(q.workers) > 0
	if w.byKey != q.byKey && (used || len(q.open) > 0) {
		return invalid("by_key")
	}
	if w.maxDeliveries != q.maxDeliveries && used {
		return invalid("max_deliveries")
	}
	q.byKey, q.maxDeliveries = w.byKey, w.maxDeliveries
	return nil
}

// join takes a worker in; what its owner had and names goes to it, the rest comes again.
func (q *queue) join(s *subscription, w wish, now int64) {
	had := map[uint64]*openMessage{}
	for old := range q.workers {
		if w.owner != 0 && old.owner == w.owner {
			for ticket, m := range q.part(old) {
				had[ticket] = m
			}
			old.conn.tell(old.end(endTakenOver, "its owner has asked for the name again"))
		}
	}
	q.absent = slices.DeleteFunc(q.absent, func(a absence) bool {
		if w.owner == 0 || a.owner != w.owner {
			return false
		}
		for ticket, m := range a.held {
			had[ticket] = m
		}
		return true
	})
	q.workers[s] = true
	for ticket, m := range had {
		if slices.Contains(w.tickets, ticket) {
			s.hold(m, now)
		} else {
			q.release(m)
		}
	}
	q.wake()
}

// part removes a worker, and tells what it had.
func (q *queue) part(s *subscription) map[uint64]*openMessage {
	delete(q.workers, s)
	had := s.held
	s.held, s.overdue = map[uint64]*openMessage{}, map[uint64]int{}
	s.count, s.bytes = 0, 0
	return had
}

func (q *queue) leave(s *subscription) {
	for _, m := range q.part(s) {
		q.release(m)
	}
	q.wake()
}

// lost keeps what a worker had for its owner; without one, it is lost as well.
func (q *queue) lost(s *subscription, now int64, alone bool) {
	had := q.part(s)
	if s.owner != 0 {
		q.absent = append(q.absent, absence{s.owner, s.attempt, had, now + keepAbsent, alone})
		return
	}
	for _, m := range had {
		q.lose(m, now, alone)
	}
	q.wake()
}

func (q *queue) hasOthers(s *subscription) bool {
	return len(q.workers) > 1 || !q.workers[s] && len(q.workers) > 0
}

func (q *queue) wake() {
	for s := range q.workers {
		s.conn.wakeUp()
	}
}

// offer finds what a worker may have now. A suspect may have ended its worker: it gets a connection for itself.
func (q *queue) offer(s *subscription, now int64) *openMessage {
	size, suspect := s.conn.hand()
	if suspect {
		return nil
	}
	for i, m := range q.waiting {
		if q.topic.isHole(m.offset) {
			delete(q.open, m.offset)
			q.waiting = slices.Delete(q.waiting, i, i+1)
			return q.offer(s, now)
		}
		if m.ready <= now && !(m.suspect && size > 0) && !q.blocked(m) {
			return m
		}
	}
	return q.fresh()
}

// blocked tells whether one of the same key must be settled first.
func (q *queue) blocked(m *openMessage) bool {
	if !q.byKey || m.key == "" {
		return false
	}
	for _, other := range q.open {
		if other.key == m.key && other.offset < m.offset {
			return true
		}
	}
	return false
}

// fresh finds the next message that was not handed out yet. Those that are blocked are open from now on.
func (q *queue) fresh() *openMessage {
	for len(q.open) < maxOpen {
		q.next = q.topic.readableFrom(q.next)
		if q.next >= q.topic.next {
			break
		}
		m := &openMessage{offset: q.next}
		if found, _, ok := q.topic.read(q.next); ok {
			m.key = string(found.key)
		}
		if !q.blocked(m) {
			return m
		}
		q.open[m.offset] = m
		q.waiting = append(q.waiting, m)
		q.next++
	}
	return nil
}

// take is told that an offered message is not waiting any more; it tells whether it was.
func (q *queue) take(m *openMessage) bool {
	i := slices.Index(q.waiting, m)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// skip drops an offered message that has gone from the topic, and tells where the gap ends.
func (q *queue) skip(m *openMessage) uint64 {
	if q.take(m) {
		delete(q.open, m.offset)
		return m.offset + 1
	}
	q.next = q.topic.head
	return q.next
}

func (q *queue) wait(m *openMessage, ready int64) {
	m.ready = ready
	q.waiting = append(q.waiting, m)
}

// release has a message come again, as if it had not been handed out.
func (q *queue) release(m *openMessage) {
	m.count--
	q.wait(m, 0)
}

func (q *queue) bury(m *openMessage, reason string, now int64) {
	delete(q.open, m.offset)
	q.dead[m.offset] = deadMessage{m.count, now, reason}
}

// fail has a message come again after a delivery that counts, or buries it.
func (q *queue) fail(m *openMessage, reason string, ready, now int64) {
	if q.maxDeliveries > 0 && m.count >= q.maxDeliveries {
		q.bury(m, reason, now)
	} else {
		q.wait(m, ready)
	}
}

// lose has a suspect come again; only one that was alone is counted.
func (q *queue) lose(m *openMessage, now int64, alone bool) {
	m.suspect = true
	if alone {
		q.fail(m, "its worker was lost, or took too long", 0, now)
	} else {
		q.release(m)
	}
}

// settled decides what becomes of a message that its worker does not hold any more.
func (q *queue) settled(m *openMessage, what settlement, now int64, alone bool) {
	switch what.outcome {
	case done:
		delete(q.open, m.offset)
	case retry:
		m.suspect = false
		q.fail(m, what.reason, now+what.delay, now)
	case reject:
		q.bury(m, what.reason, now)
	case release:
		q.release(m)
	case giveBack:
		m.count--
		q.wait(m, now+waitAgain)
	case lose:
		q.lose(m, now, alone)
	}
}

// sweep does what time brings.
func (q *queue) sweep(now int64) {
	q.absent = slices.DeleteFunc(q.absent, func(a absence) bool {
		if a.until > now {
			return false
		}
		for _, m := range a.held {
			q.lose(m, now, a.alone)
		}
		return true
	})
	for s := range q.workers {
		for ticket, m := range s.held {
			if m.late <= now {
				size, _ := s.conn.hand()
				delete(s.held, ticket)
				s.overdue[ticket] = m.size
				q.lose(m, now, size == 1)
			}
		}
	}
	q.wake()
}

// about lists the dead that a request is about, in order.
func (q *queue) about(first uint64, selected []uint64, all bool) []uint64 {
	var found []uint64
	for offset := range q.dead {
		if offset >= first && (all || slices.Contains(selected, offset)) {
			found = append(found, offset)
		}
	}
	slices.SortFunc(found, cmp.Compare)
	return found
}

// revive opens those dead again that can be read, and tells how many.
func (q *queue) revive(offsets []uint64) uint32 {
	count := uint32(0)
	for _, offset := range offsets {
		found, _, ok := q.topic.read(offset)
		if ok {
			delete(q.dead, offset)
			m := &openMessage{offset: offset, key: string(found.key), again: true}
			q.open[offset] = m
			q.wait(m, 0)
			count++
		}
	}
	q.wake()
	return count
}
