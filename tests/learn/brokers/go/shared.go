package main

import "encoding/json"

const (
	dayMS       = 86_400_000
	maxDelayMS  = 30 * dayMS
	maxReason   = 1024
	maxDeadPage = 1000
)

// Actions of Dead.
const (
	listDead byte = iota
	reviveDead
	forgetDead
	forgetName
)

// A wish is what a Subscribe says of its shared name, and who asks.
type wish struct {
	shared        bool
	byKey         bool
	timeoutMS     uint32
	maxDeliveries int
	tickets       []uint64
	owner         uint64
	attempt       uint32
}

// wish takes those fields of a Subscribe that are there with SHARED.
func (d *decoder) wish(flags byte, name string, until, owner uint64, attempt uint32) wish {
	w := wish{shared: flags&flagShared != 0, byKey: flags&flagByKey != 0, owner: owner, attempt: attempt}
	if !w.shared {
		d.require(!w.byKey, "by_key")
		return w
	}
	w.timeoutMS, w.maxDeliveries = d.u32(), int(d.u16())
	w.tickets = d.numbers("tickets")
	d.require(name != "", "name")
	d.require(until == forever, "until")
	d.require(w.timeoutMS <= dayMS, "timeout_ms")
	return w
}

// share makes a subscription a worker; the name is made if there is none.
func (s *subscription) share(w wish, now int64) *queue {
	q := s.topic.queues[s.name]
	if q == nil {
		q = newQueue(s.topic, s.start, w)
		s.topic.queues[s.name] = q
	}
	s.queue = q
	s.owner, s.attempt, s.timeout = w.owner, w.attempt, int64(w.timeoutMS)*1000
	s.held, s.overdue = map[uint64]*openMessage{}, map[uint64]int{}
	q.join(s, w, now)
	return q
}

func (c *conn) settle(h header, d *decoder, now int64) (reply, error) {
	id := d.u32()
	what := settlement{outcome: d.u8(), delay: waitAgain}
	delayed, delayMS := h.flags&flagDelayed != 0, uint64(0)
	if delayed {
		delayMS = d.u64()
	}
	what.reason = d.str("reason")
	tickets := d.numbers("tickets")
	d.require(what.outcome <= extend, "outcome")
	d.require(len(what.reason) <= maxReason, "reason")
	d.require(what.outcome != retry || delayMS <= maxDelayMS, "delay_ms")
	d.require(what.outcome != extend || delayed && 1 <= delayMS && delayMS <= dayMS, "delay_ms")
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	if delayed {
		what.delay = int64(delayMS) * 1000
	}
	s := c.subscriptions[id]
	if s == nil {
		return reply{}, noSubscription()
	}
	if s.queue == nil {
		return reply{}, invalid("subscription")
	}
	var e encoder
	e.numbers(s.settleTickets(tickets, what, now))
	return reply{settle | isReply, 0, e.buf}, nil
}

func (c *conn) dead(h header, d *decoder, now int64) (reply, error) {
	topicName, name := d.str("topic"), d.str("name")
	d.str("user")
	action, first, count := d.u8(), d.u64(), d.u16()
	all := h.flags&flagSelected == 0
	var selected []uint64
	if !all {
		selected = d.numbers("offsets")
	}
	d.require(legalTopic(topicName), "topic")
	d.require(legalName(name), "name")
	d.require(action <= forgetName, "action")
	d.require(count >= 1, "count")
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	t := c.broker.topics[topicName]
	if t == nil {
		return reply{}, &fault{code: noSuchTopic, field: "topic", text: "there is no such topic"}
	}
	t.expire(now)
	q := t.queues[name]
	if q == nil {
		return reply{}, &fault{code: noSuchName, field: "name", text: "the topic has no shared name like this"}
	}
	if action == forgetName {
		if len(q.workers) > 0 {
			return reply{}, &fault{code: notEmpty, field: "name", text: "the name has workers"}
		}
		delete(t.queues, name)
		return deadPage(0, 1, 0, nil), nil
	}
	about, more, next := q.about(first, selected, all), byte(0), uint64(0)
	if most := min(int(count), maxDeadPage); len(about) > most {
		about, more, next = about[:most], 1, about[most]
	}
	switch action {
	case listDead:
		return deadPage(more, 0, next, q.list(about)), nil
	case reviveDead:
		return deadPage(more, q.revive(about), next, nil), nil
	}
	for _, offset := range about {
		delete(q.dead, offset)
	}
	return deadPage(more, uint32(len(about)), next, nil), nil
}

func deadPage(more byte, count uint32, next uint64, text []byte) reply {
	var e encoder
	e.u8(more)
	e.u32(count)
	e.u64(next)
	return reply{dead | isReply, 0, append(e.buf, text...)}
}

// list tells of dead messages, as JSON.
func (q *queue) list(offsets []uint64) []byte {
	rows := []entry{}
	for _, offset := range offsets {
		m := q.dead[offset]
		_, _, ok := q.topic.read(offset)
		rows = append(rows, entry{
			"offset": offset, "deliveries": m.deliveries, "died_us": m.died, "reason": m.reason, "is_readable": ok,
		})
	}
	text, _ := json.Marshal(map[string][]entry{"dead": rows})
	return text
}
