package main

import (
	"log"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	maxTopics        = 10_000
	maxSubscriptions = 1_000 // a connection
	maxProducers     = 100_000
	keepProducer     = 600_000_000 // µs
	keepAnswers      = 64
	helloTime        = 10_000_000
	sweepEvery       = time.Second
	deadlineEvery    = 100 * time.Millisecond
	stopTime         = 2 * time.Second
)

type broker struct {
	mu       sync.Mutex // guards everything below, and all that belongs to connections and topics
	boot     uint64
	idle     time.Duration
	lastTime int64

	lastTicket uint64

	topics      map[string]*topic
	lastDeleted uint64 // the greatest epoch of a deleted topic
	producers   map[uint64]*producer
	connections map[uint64]*conn
	accepted    uint64

	stopping bool
	readers  sync.WaitGroup // connections that still read requests
	writers  sync.WaitGroup
}

func newBroker(idle time.Duration) *broker {
	return &broker{
		lastTicket: uint64(time.Now().UnixMicro()), boot: rand.Uint64() | 1, idle: idle, topics: map[string]*topic{}, producers: map[uint64]*producer{},
		connections: map[uint64]*conn{},
	}
}

// now reads the clock, which never goes back.
func (b *broker) now() int64 {
	b.lastTime = max(b.lastTime, time.Now().UnixMicro())
	return b.lastTime
}

func (b *broker) accept(listener net.Listener) {
	for {
		link, err := listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		if b.stopping {
			link.Close()
		} else {
			b.accepted++
			c := newConn(b, b.accepted, link)
			b.connections[c.number] = c
			b.readers.Add(1)
			b.writers.Add(1)
			go c.serve()
		}
		b.mu.Unlock()
	}
}

// stop answers what has been read, delivers what has been acknowledged, and says goodbye.
func (b *broker) stop() {
	b.mu.Lock()
	b.stopping = true
	for _, c := range b.connections {
		c.link.SetReadDeadline(time.Now())
		c.room.Broadcast()
	}
	b.mu.Unlock()
	b.readers.Wait()
	b.mu.Lock()
	for _, c := range b.connections {
		c.draining = true
		c.link.SetWriteDeadline(time.Now().Add(stopTime))
		c.wakeUp()
	}
	b.mu.Unlock()
	done := make(chan struct{})
	go func() { b.writers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(stopTime + time.Second):
		log.Print("some clients did not read what was left for them")
	}
}

func (b *broker) sweepForever() {
	deadlines, sweeps := time.Tick(deadlineEvery), time.Tick(sweepEvery)
	for {
		select {
		case <-deadlines:
			b.mu.Lock()
			b.checkDeadlines(b.now())
			b.mu.Unlock()
		case <-sweeps:
			b.mu.Lock()
			b.sweep(b.now())
			b.mu.Unlock()
		}
	}
}

// checkDeadlines closes connections that were silent for too long.
func (b *broker) checkDeadlines(now int64) {
	for _, c := range b.connections {
		silent := now - c.lastHeard
		switch {
		case c.ending || c.blocked:
		case !c.greeted && silent >= helloTime:
			c.giveUp(&fault{code: handshakeTimeout, text: "no complete Hello came in time"})
		case c.features&featureHeartbeat != 0 && silent >= b.idle.Microseconds():
			c.giveUp(&fault{code: idleTimeout, text: "no heartbeat came in time"})
		}
	}
}

// sweep forgets what is too old, and frees what nobody needs.
func (b *broker) sweep(now int64) {
	for _, t := range b.topics {
		b.forgetPositions(t, now)
		t.expire(now)
		for _, q := range t.queues {
			q.sweep(now)
		}
		t.freeRead()
		t.closeWindows(now)
	}
	for number, p := range b.producers {
		if now-p.lastSeen > keepProducer {
			delete(b.producers, number)
		}
	}
}

func (b *broker) forgetPositions(t *topic, now int64) {
	for name, p := range t.positions {
		if p.reader == nil && p.expires <= now {
			delete(t.positions, name)
		}
	}
}

// topic finds a topic, or makes it.
func (b *broker) topic(name string, explicit bool, now int64) (t *topic, created bool, err error) {
	if t = b.topics[name]; t != nil {
		return t, false, nil
	}
	if len(b.topics) >= maxTopics {
		return nil, false, &fault{code: tooManyTopics, text: "the broker holds as many topics as it may"}
	}
	t = newTopic(name, max(uint64(now), b.lastDeleted+1), explicit)
	b.topics[name] = t
	return t, true, nil
}

// legalName judges a name of a topic or a subscription.
func legalName(name string) bool {
	return 1 <= len(name) && len(name) <= 200 && strings.IndexFunc(name, unicode.IsControl) < 0
}

func legalTopic(name string) bool { return legalName(name) && name[0] != '$' }

// A producer numbers its batches; its last answers are kept, so that a retry changes nothing.
type producer struct {
	next     uint64
	answers  []answer // of the sequences before next
	lastSeen int64
}

type answer struct {
	reply reply
	err   error
}

// numbered carries a batch out once, however often it comes.
func (b *broker) numbered(number, sequence uint64, now int64, store func() (reply, error)) (reply, error) {
	p := b.producers[number]
	switch {
	case p == nil && sequence != 0:
		return reply{}, &fault{code: producerUnknown, field: "producer", text: "this producer is not known any more"}
	case p == nil && len(b.producers) >= maxProducers:
		return reply{}, &fault{code: noMemory, text: "there is no room for another producer"}
	case p == nil:
		p = &producer{}
		b.producers[number] = p
	}
	p.lastSeen = now
	if sequence > p.next {
		return reply{}, &fault{code: sequenceGap, field: "sequence", text: "a batch before this one is missing"}
	}
	if age := p.next - sequence; age > 0 {
		if age > uint64(len(p.answers)) {
			return reply{}, invalid("sequence")
		}
		old := p.answers[uint64(len(p.answers))-age]
		old.reply.flags |= flagDuplicate
		return old.reply, old.err
	}
	r, err := store()
	if f, failed := err.(*fault); failed && retryable[f.code] {
		return r, err
	}
	p.next++
	p.answers = append(p.answers, answer{r, err})
	if len(p.answers) > keepAnswers {
		p.answers = p.answers[1:]
	}
	return r, err
}
