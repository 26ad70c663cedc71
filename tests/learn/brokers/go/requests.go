package main

import "slices"

// carryOut does what a request asks for. The caller holds the lock.
func (c *conn) carryOut(h header, body []byte) (reply, error) {
	d := &decoder{data: body}
	now := c.broker.now()
	switch h.typ {
	case hello:
		return c.hello(d)
	case createTopic:
		return c.createTopic(d, now)
	case publish:
		return c.publish(h, d, now)
	case subscribe:
		return c.subscribe(h, d, now)
	case unsubscribe:
		return c.unsubscribe(h, d, now)
	case commit:
		return c.commit(d)
	case ping:
		return c.ping(d)
	case closing:
		return c.close(d, now)
	case describe:
		return c.describe(d, now)
	case remove:
		return c.remove(h, d, now)
	case settle:
		return c.settle(h, d, now)
	case dead:
		return c.dead(h, d, now)
	default:
		return c.disconnect(d, now)
	}
}

func (c *conn) hello(d *decoder) (reply, error) {
	magic := string(d.take(4))
	oldest, newest := d.u16(), d.u16()
	features := d.u64()
	client := d.str("client")
	auth := d.u8()
	d.require(auth <= 2, "auth")
	d.str("user")
	d.str("secret")
	if magic != "ZAIK" && !d.short {
		return reply{}, &fault{code: malformed, field: "magic", text: "this is no Hello of zaichik's"}
	}
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	if c.greeted {
		return reply{}, &fault{code: unsupported, field: "type", text: "there has been a Hello"}
	}
	if oldest > 1 || newest < 1 {
		return reply{}, &fault{code: unsupportedVersion, text: "this broker speaks version 1 only"}
	}
	c.greeted = true
	c.lastHeard = c.broker.now()
	c.client = client
	c.features = features & (featureHeartbeat | featureOwner | featureTables | featureShared)
	var e encoder
	e.u16(1)
	e.u64(c.features)
	e.u64(c.broker.boot)
	e.u32(maxFrame)
	e.u32(maxBatch)
	e.u32(maxMessage)
	e.u32(maxCredit)
	if c.features&featureHeartbeat != 0 {
		e.u32(uint32(c.broker.idle.Milliseconds()))
	} else {
		e.u32(0)
	}
	e.str("go broker 1")
	return reply{hello | isReply, 0, e.buf}, nil
}

func (c *conn) createTopic(d *decoder, now int64) (reply, error) {
	name := d.str("topic")
	d.require(legalTopic(name), "topic")
	known, named, strange := inForce(settings{isTable: 1}), settings{}, false
	for left := d.u8(); left > 0; left-- {
		number, value := d.u8(), d.u64()
		_, twice := named[number]
		d.require(!twice && legal(number, value), "settings")
		_, isKnown := known[number]
		strange = strange || !isKnown
		named[number] = value
	}
	d.require(strange || named.consistent(), "settings")
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	if strange {
		return reply{}, unknown("settings")
	}
	t, created, err := c.broker.topic(name, true, now)
	if err != nil {
		return reply{}, err
	}
	if created || !t.explicit && t.next == 0 {
		t.settings = inForce(named)
		if t.settings[isTable] == 1 {
			t.table = newTable(t)
		}
		t.explicit = true
	}
	for number, value := range named {
		if t.settings[number] != value {
			return reply{}, &fault{code: topicExists, field: "settings", text: "the topic has other settings"}
		}
	}
	var e encoder
	e.u8(0)
	if created {
		e.buf[0] = 1
	}
	e.u64(t.epoch)
	e.u8(byte(len(t.settings)))
	for number := byte(1); number <= tombstones; number++ {
		if value, ok := t.settings[number]; ok {
			e.u8(number)
			e.u64(value)
		}
	}
	return reply{createTopic | isReply, 0, e.buf}, nil
}

func (c *conn) publish(h header, d *decoder, now int64) (reply, error) {
	number, sequence := d.u64(), d.u64()
	name := d.str("topic")
	all := d.batch()
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	meant := h.flags&flagTombstones != 0
	store := func() (reply, error) { return c.store(name, all, meant, now) }
	if number == 0 {
		return store()
	}
	return c.broker.numbered(number, sequence, now, store)
}

func (c *conn) store(name string, all []message, meant bool, now int64) (reply, error) {
	if !legalTopic(name) {
		return reply{}, invalid("topic")
	}
	for i := range all {
		if len(all[i].key) > maxKey {
			return reply{}, invalid("batch")
		}
	}
	tooLarge := &fault{code: batchTooLarge, text: "the batch is larger than Welcome allows"}
	if len(all) > maxBatch {
		return reply{}, tooLarge
	}
	if sizeOf(all) > maxMessage {
		if len(all) == 1 {
			tooLarge.code = messageTooLarge
		}
		return reply{}, tooLarge
	}
	t, _, err := c.broker.topic(name, false, now)
	if err != nil {
		return reply{}, err
	}
	c.broker.forgetPositions(t, now)
	first := t.next
	dropped := make([]bool, len(all))
	if t.table != nil {
		err = t.table.append(all, meant, now)
	} else {
		dropped, err = t.append(all, now)
	}
	if err != nil {
		return reply{}, err
	}
	kept := uint32(t.next - first)
	compacted := uint32(len(all)) - kept
	var e encoder
	e.u64(first)
	e.u32(kept)
	e.u32(compacted)
	e.u32(uint32(len(t.subscriptions)))
	if compacted > 0 {
		bits := make([]byte, (len(all)+7)/8)
		for i, gone := range dropped {
			if gone {
				bits[i/8] |= 1 << (i % 8)
			}
		}
		e.buf = append(e.buf, bits...)
	}
	for s := range t.subscriptions {
		s.conn.wakeUp()
	}
	return reply{publish | isReply, 0, e.buf}, nil
}

func (c *conn) subscribe(h header, d *decoder, now int64) (reply, error) {
	topicName, name := d.str("topic"), d.str("name")
	start, value := d.u8(), d.u64()
	epoch, until := d.u64(), d.u64()
	credit, creditBytes := d.u32(), d.u32()
	owned := h.flags&flagOwned != 0
	owner, attempt := uint64(0), uint32(0)
	if owned {
		owner, attempt = d.u64(), d.u32()
	}
	w := d.wish(h.flags, name, until, owner, attempt)
	d.require(h.id > c.lastID, "id")
	d.require(legalTopic(topicName), "topic")
	d.require(name == "" || legalName(name), "name")
	d.require(start <= 3, "start")
	d.require(1 <= credit && credit <= maxCredit, "credit")
	d.require(creditBytes >= 1, "credit_bytes")
	d.require(!owned || owner != 0, "owner")
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	if len(c.subscriptions) >= maxSubscriptions {
		return reply{}, &fault{code: tooManySubscriptions, text: "this connection has as many as it may"}
	}
	t := c.broker.topics[topicName]
	if epoch != 0 && (t == nil || t.epoch != epoch) {
		return reply{}, &fault{code: epochChanged, field: "epoch", text: "the topic is another one"}
	}
	if t == nil && start == 2 && value > 0 {
		return reply{}, &fault{code: offsetAhead, field: "value", text: "the topic is empty"}
	}
	t, _, err := c.broker.topic(topicName, false, now)
	if err != nil {
		return reply{}, err
	}
	if t.table != nil && c.features&featureTables == 0 {
		return reply{}, &fault{code: unsupported, field: "topic", text: "it is a table, which this client does not know"}
	}
	t.expire(now)
	c.broker.forgetPositions(t, now)
	s := &subscription{
		id: h.id, conn: c, topic: t, name: name, until: until, credit: int(credit), creditBytes: int(creditBytes),
	}
	p, q := t.positions[name], t.queues[name]
	if p != nil && w.shared || q != nil && !w.shared {
		return reply{}, invalid("name")
	}
	resumed := p != nil || q != nil
	switch {
	case q != nil:
		if err := q.admits(w); err != nil {
			return reply{}, err
		}
		s.start = q.start()
	case resumed:
		s.start = p.committed
		s.again = p.delivered
		if owned {
			if err := p.refuses(owner, attempt); err != nil {
				return reply{}, err
			}
		}
		p.give(owner, attempt)
	case start == 0 && t.settings[retentionTTL] != 0:
		s.start = t.head
	case start <= 1:
		s.start = t.next
	case start == 2 && value > t.next:
		return reply{}, &fault{code: offsetAhead, field: "value", text: "the topic ends before this offset"}
	case start == 2:
		s.start = value
	default:
		s.start = t.since(value)
	}
	s.next, s.committed = s.start, s.start
	s.fresh = start == 0
	if p != nil {
		s.fresh, s.told = p.fresh, p.told
	}
	flags := byte(0)
	if name != "" {
		flags = flagNamed
		if resumed {
			flags |= flagResumed
		}
	}
	if w.shared {
		s.committed = s.share(w, now).committed()
	} else if name != "" {
		if p == nil {
			p = &position{committed: s.start, delivered: s.start, owner: owner, attempt: attempt, fresh: s.fresh}
			t.positions[name] = p
		}
		if old := p.reader; old != nil && !old.ended {
			old.conn.tell(old.end(endTakenOver, "another subscription has taken the name over"))
		} else if old != nil {
			old.over = true
		}
		p.reader = s
		s.position = p
	}
	if t.table != nil {
		flags |= flagTable
	}
	t.subscriptions[s] = true
	c.subscriptions[s.id] = s
	c.turns = append(c.turns, s)
	c.lastID = s.id
	var e encoder
	e.u64(t.epoch)
	e.u64(s.start)
	e.u64(t.next)
	e.u64(s.committed)
	return reply{subscribe | isReply, flags, e.buf}, nil
}

func noSubscription() error {
	return &fault{code: noSuchSubscription, field: "subscription", text: "this connection has no such subscription"}
}

func (c *conn) unsubscribe(h header, d *decoder, now int64) (reply, error) {
	id := d.u32()
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	s := c.subscriptions[id]
	if s == nil {
		return reply{}, noSubscription()
	}
	if h.flags&flagForget != 0 && s.queue != nil && s.queue.hasOthers(s) {
		return reply{}, &fault{code: notEmpty, field: "name", text: "others have this name"}
	}
	s.leave(now, h.flags&flagForget != 0)
	delete(c.subscriptions, id)
	c.turns = slices.DeleteFunc(c.turns, func(other *subscription) bool { return other == s })
	return reply{unsubscribe | isReply, 0, nil}, nil
}

func (c *conn) commit(d *decoder) (reply, error) {
	id, next := d.u32(), d.u64()
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	s := c.subscriptions[id]
	if s == nil {
		return reply{}, noSubscription()
	}
	if s.queue != nil {
		return reply{}, invalid("subscription")
	}
	if err := s.settle(next); err != nil {
		return reply{}, err
	}
	c.wakeUp()
	var e encoder
	e.u64(s.committed)
	return reply{commit | isReply, 0, e.buf}, nil
}

func (c *conn) ping(d *decoder) (reply, error) {
	var e encoder
	e.u64(d.u64())
	return reply{ping | isReply, 0, e.buf}, d.finish()
}

func (c *conn) close(d *decoder, now int64) (reply, error) {
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	c.finish(now)
	return reply{closing | isReply, 0, nil}, nil
}

func (c *conn) remove(h header, d *decoder, now int64) (reply, error) {
	name, epoch := d.str("topic"), d.u64()
	d.require(legalTopic(name), "topic")
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	t := c.broker.topics[name]
	if t == nil {
		return reply{}, &fault{code: noSuchTopic, field: "topic", text: "there is no such topic"}
	}
	if epoch != 0 && t.epoch != epoch {
		return reply{}, &fault{code: epochChanged, field: "epoch", text: "the topic is another one"}
	}
	t.expire(now)
	c.broker.forgetPositions(t, now)
	if h.flags&flagIfEmpty != 0 && (t.head < t.next || len(t.subscriptions) > 0 || len(t.positions) > 0 || len(t.queues) > 0) {
		return reply{}, &fault{code: notEmpty, field: "topic", text: "the topic is in use"}
	}
	for s := range t.subscriptions {
		s.conn.tell(s.end(endDeleted, "the topic was deleted"))
	}
	for _, p := range t.positions {
		if p.reader != nil {
			p.reader.over = true
		}
	}
	delete(c.broker.topics, name)
	c.broker.lastDeleted = max(c.broker.lastDeleted, t.epoch)
	return reply{remove | isReply, 0, nil}, nil
}

func (c *conn) disconnect(d *decoder, now int64) (reply, error) {
	other := c.broker.connections[d.u64()]
	d.require(other != nil && other != c && !other.ending, "connection")
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	other.goAway(awayDisconnected, "an operator ended this connection", now)
	return reply{disconnect | isReply, 0, nil}, nil
}
