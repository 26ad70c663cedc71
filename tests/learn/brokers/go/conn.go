package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	maxReplies = 256 << 10 // unsent bytes of replies above which nothing more is read
	maxChunk   = 256 << 10 // bytes of events that are made at once
	stallTime  = 10 * time.Second
	lingerTime = time.Second
)

// A conn is one client's connection. serve reads requests and carries them out, write sends what comes of it: first
// the replies, then events, which are made only when there is nothing else to send. So what is kept for a client that
// does not read is at most a chunk, and its replies.
type conn struct {
	broker *broker
	number uint64
	link   *net.TCPConn
	client string

	greeted   bool
	features  uint64
	lastHeard int64
	blocked   bool // not reading: replies have piled up

	subscriptions map[uint32]*subscription
	turns         []*subscription
	lastID        uint32 // the greatest id of a subscription so far

	out      []byte        // frames to be sent before any other event
	ending   bool          // what is in out is the last
	draining bool          // the broker stops: when nothing more can be sent, this ends
	torn     bool          // the client is gone
	wake     chan struct{} // holds one signal: that write should look again
	room     *sync.Cond    // out was taken
	written  chan struct{} // closed when write has ended
}

func newConn(b *broker, number uint64, link net.Conn) *conn {
	c := &conn{
		broker: b, number: number, link: link.(*net.TCPConn), lastHeard: b.now(),
		subscriptions: map[uint32]*subscription{},
		wake:          make(chan struct{}, 1), room: sync.NewCond(&b.mu), written: make(chan struct{}),
	}
	c.link.SetWriteBuffer(maxChunk)
	return c
}

func (c *conn) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// tell sends frames.
func (c *conn) tell(frames []byte) {
	c.out = append(c.out, frames...)
	c.wakeUp()
}

// finish ends all subscriptions: no events come any more, and what is to be sent is sent.
func (c *conn) finish(now int64) {
	for _, s := range c.subscriptions {
		s.leave(now, false)
	}
	c.subscriptions, c.turns = map[uint32]*subscription{}, nil
	c.ending = true
	c.wakeUp()
	c.room.Broadcast()
}

func (c *conn) goAway(code uint16, text string, now int64) {
	var e encoder
	e.u16(code)
	e.str(text)
	c.tell(appendFrame(nil, goAway, 0, 0, e.buf))
	c.finish(now)
}

// giveUp ends the connection with an error that answers no request.
func (c *conn) giveUp(f *fault) {
	c.answer(header{}, reply{}, f, false)
	c.lost(c.broker.now())
}

func (c *conn) serve() {
	go c.write()
	err := c.readRequests()
	b := c.broker
	b.mu.Lock()
	if !c.ending && errors.Is(err, os.ErrDeadlineExceeded) {
		c.link.SetReadDeadline(time.Time{}) // the broker stops: write says when to end
	} else if !c.ending {
		c.torn = err != nil
		c.lost(b.now())
	}
	b.mu.Unlock()
	b.readers.Done()
	io.Copy(io.Discard, c.link) // or closing would tear down what was just sent
	<-c.written
	c.link.Close()
	b.mu.Lock()
	delete(b.connections, c.number)
	b.mu.Unlock()
	b.writers.Done()
}

// readRequests carries out requests until there are no more; an error means that the client is gone.
func (c *conn) readRequests() error {
	in := bufio.NewReaderSize(heard{c}, 64<<10)
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return endOfStream(err)
		}
		length := binary.LittleEndian.Uint32(size[:])
		if f := c.judgeLength(length); f != nil {
			c.broker.mu.Lock()
			c.giveUp(f)
			c.broker.mu.Unlock()
			return nil
		}
		frame := make([]byte, length)
		if _, err := io.ReadFull(in, frame); err != nil {
			return endOfStream(err)
		}
		if !c.handle(parseHeader(frame), frame[8:]) {
			return nil
		}
	}
}

// endOfStream tells an ordinary end from a torn connection.
func endOfStream(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// heard notes the time of whatever comes in.
type heard struct{ c *conn }

func (h heard) Read(p []byte) (int, error) {
	n, err := h.c.link.Read(p)
	h.c.broker.mu.Lock()
	if h.c.greeted {
		h.c.lastHeard = h.c.broker.now()
	}
	h.c.broker.mu.Unlock()
	return n, err
}

func (c *conn) judgeLength(length uint32) *fault {
	limit := uint32(maxFirstFrame)
	if c.greeted {
		limit = maxFrame
	}
	if length < headerSize-4 {
		return &fault{code: malformed, text: "a frame has 8 bytes at least"}
	}
	if length > limit {
		return &fault{code: frameTooLarge, text: "the frame is larger than allowed"}
	}
	return nil
}

// handle judges a frame, carries it out and answers. The result is false when no other frame is to be read.
func (c *conn) handle(h header, body []byte) bool {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(c.out) > maxReplies && !c.ending && !b.stopping {
		c.blocked = true
		c.room.Wait()
		c.blocked = false
		c.lastHeard = b.now()
	}
	if c.ending {
		return false
	}
	first := !c.greeted
	r, err := c.judge(h, body)
	c.answer(h, r, err, first)
	if f, failed := err.(*fault); failed && (first || f.fatal()) {
		c.lost(b.now())
	}
	return !c.ending
}

// judge refuses what no request may be, and carries out the rest.
func (c *conn) judge(h header, body []byte) (reply, error) {
	switch {
	case h.zero != 0:
		return reply{}, &fault{code: malformed, field: "zero", text: "two bytes of the header are not zero"}
	case !c.greeted && h.typ != hello:
		return reply{}, &fault{code: helloRequired, text: "the first frame must be a Hello"}
	case (h.typ < hello || h.typ > disconnect) && h.typ != settle && h.typ != dead:
		return reply{}, unknown("type")
	case h.flags&^flagsOf[h.typ] != 0:
		return reply{}, unknown("flags")
	}
	return c.carryOut(h, body)
}

// answer sends a reply or an error; success is told only to those who want to know.
func (c *conn) answer(h header, r reply, err error, first bool) {
	if f, failed := err.(*fault); failed {
		r = f.reply(h.typ, first)
	} else if h.id == 0 {
		return
	}
	c.tell(appendFrame(nil, r.typ, r.flags, h.id, r.body))
}

// write sends what there is until the connection ends.
func (c *conn) write() {
	defer close(c.written)
	for {
		chunk, last := c.output()
		if len(chunk) > 0 {
			if err := c.send(chunk); err != nil {
				c.abandon()
				return
			}
		} else if last {
			c.link.CloseWrite()
			c.link.SetReadDeadline(time.Now().Add(lingerTime))
			return
		} else {
			<-c.wake
		}
	}
}

// output takes what is to be sent next: replies, and as many events as make a chunk.
func (c *conn) output() (chunk []byte, last bool) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.torn {
		return nil, true
	}
	chunk, c.out = c.out, nil
	c.room.Broadcast()
	if !c.ending {
		chunk = c.events(chunk)
		if len(chunk) == 0 && c.draining {
			c.goAway(awayStopping, "the broker is stopping", b.now())
			chunk, c.out = c.out, nil
		}
	}
	return chunk, c.ending
}

// events adds events of all subscriptions, in turns, until there are none or the chunk is full.
func (c *conn) events(chunk []byte) []byte {
	now := c.broker.now()
	for idle := 0; idle < len(c.turns) && len(chunk) < maxChunk; {
		s := c.turns[0]
		c.turns = append(c.turns[1:], s)
		size := len(chunk)
		chunk = s.step(chunk, now)
		idle++
		if len(chunk) > size {
			idle = 0
		}
	}
	return chunk
}

// send writes a chunk, unless nothing moves for too long.
func (c *conn) send(chunk []byte) error {
	sent := 0
	for sent < len(chunk) {
		c.setWriteDeadline(stallTime)
		n, err := c.link.Write(chunk[sent:])
		sent += n
		late := errors.Is(err, os.ErrDeadlineExceeded)
		if late && n == 0 {
			c.sendLast(chunk, sent)
		}
		if err != nil && (n == 0 || !late) {
			return err
		}
	}
	return nil
}

func (c *conn) setWriteDeadline(limit time.Duration) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if !c.draining {
		c.link.SetWriteDeadline(time.Now().Add(limit))
	}
}

// sendLast ends the frame that was begun, and says why no other comes, if the client reads at last.
func (c *conn) sendLast(chunk []byte, sent int) {
	end := 0
	for end < sent {
		end += 4 + int(binary.LittleEndian.Uint32(chunk[end:]))
	}
	f := &fault{code: slowConsumer, text: "nothing was read for too long"}
	r := f.reply(0, true)
	c.setWriteDeadline(lingerTime)
	c.link.Write(appendFrame(chunk[sent:end:end], r.typ, r.flags, 0, r.body))
}

// abandon forgets a client that is gone, or does not read.
func (c *conn) abandon() {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.torn = true
	c.lost(c.broker.now())
	c.link.SetReadDeadline(time.Now().Add(lingerTime))
	c.link.CloseWrite()
}
