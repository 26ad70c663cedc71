package main

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// Types of frames.
const (
	hello byte = iota + 1
	createTopic
	publish
	subscribe
	unsubscribe
	commit
	ping
	closing
	describe
	remove
	disconnect

	settle byte = 14
	dead   byte = 15

	messages          byte = 0x40
	lagged            byte = 0x41
	subscriptionEnded byte = 0x42
	goAway            byte = 0x43
	deletionsMissed   byte = 0x44
	isReply           byte = 0x80
	isError           byte = 0xff
)

// Flags, by the frame that has them.
const (
	flagTombstones  byte = 1 // Publish
	flagOwned       byte = 1 // Subscribe
	flagShared      byte = 2
	flagByKey       byte = 4
	flagForget      byte = 1 // Unsubscribe
	flagIfEmpty     byte = 1 // Delete
	flagDuplicate   byte = 1 // Published
	flagNamed       byte = 1 // Subscribed
	flagResumed     byte = 2
	flagTable       byte = 4
	flagHoles       byte = 1 // Messages
	flagRedelivered byte = 2
	flagTickets     byte = 4
	flagDelayed     byte = 1 // Settle
	flagSelected    byte = 1 // Dead
	flagRetryable   byte = 1 // Error
	flagFatal       byte = 2
)

// flagsOf holds the bits that each request's type defines.
var flagsOf = map[byte]byte{
	publish: flagTombstones, subscribe: flagOwned | flagShared | flagByKey, unsubscribe: flagForget, remove: flagIfEmpty,
	settle: flagDelayed, dead: flagSelected,
}

// Reasons why a subscription or a connection ends.
const (
	endUntil     = 1
	endTakenOver = 2
	endDeleted   = 4

	awayStopping     = 1
	awayDisconnected = 2
)

// What Welcome promises.
const (
	maxFirstFrame = 4096
	maxFrame      = 1_179_648
	maxBatch      = 8192
	maxMessage    = 1 << 20
	maxCredit     = 1_000_000
	maxKey        = 1024

	featureHeartbeat uint64 = 1
	featureOwner     uint64 = 2
	featureTables    uint64 = 8
	featureShared    uint64 = 16
)

const headerSize = 12

type header struct {
	typ, flags byte
	zero       uint16
	id         uint32
}

// parseHeader takes a frame without its length: 8 bytes at least.
func parseHeader(b []byte) header {
	return header{b[0], b[1], binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:])}
}

// appendFrame adds a whole frame to buf.
func appendFrame(buf []byte, typ, flags byte, id uint32, body []byte) []byte {
	e := encoder{buf}
	e.u32(uint32(8 + len(body)))
	e.u8(typ)
	e.u8(flags)
	e.u16(0)
	e.u32(id)
	return append(e.buf, body...)
}

type encoder struct{ buf []byte }

func (e *encoder) u8(v byte)    { e.buf = append(e.buf, v) }
func (e *encoder) u16(v uint16) { e.buf = binary.LittleEndian.AppendUint16(e.buf, v) }
func (e *encoder) u32(v uint32) { e.buf = binary.LittleEndian.AppendUint32(e.buf, v) }
func (e *encoder) u64(v uint64) { e.buf = binary.LittleEndian.AppendUint64(e.buf, v) }
func (e *encoder) str(v string) { e.u16(uint16(len(v))); e.buf = append(e.buf, v...) }

func (e *encoder) numbers(all []uint64) {
	e.u32(uint32(len(all)))
	for _, v := range all {
		e.u64(v)
	}
}

// batch adds messages as two columns.
func (e *encoder) batch(all []message) {
	e.u32(uint32(len(all)))
	end := uint32(0)
	e.u32(0)
	for _, m := range all {
		end += uint32(len(m.key))
		e.u32(end)
	}
	end = 0
	e.u32(0)
	for _, m := range all {
		end += uint32(len(m.payload))
		e.u32(end)
	}
	for _, m := range all {
		e.buf = append(e.buf, m.key...)
	}
	for _, m := range all {
		e.buf = append(e.buf, m.payload...)
	}
}

// A decoder takes fields off the front of a body. Its mistakes are remembered and told by finish, because a body that
// does not add up is worse than a field that is wrong.
type decoder struct {
	data  []byte
	short bool
	bad   string
}

func (d *decoder) take(n int) []byte {
	if len(d.data) < n {
		d.short = true
		d.data = nil
		return make([]byte, n)
	}
	taken := d.data[:n]
	d.data = d.data[n:]
	return taken
}

func (d *decoder) u8() byte    { return d.take(1)[0] }
func (d *decoder) u16() uint16 { return binary.LittleEndian.Uint16(d.take(2)) }
func (d *decoder) u32() uint32 { return binary.LittleEndian.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return binary.LittleEndian.Uint64(d.take(8)) }

func (d *decoder) str(field string) string {
	text := d.take(int(d.u16()))
	d.require(utf8.Valid(text), field)
	return string(text)
}

func (d *decoder) numbers(field string) []uint64 {
	count := int(d.u32())
	d.require(count <= maxBatch, field)
	data := d.take(8 * min(count, len(d.data)))
	all := make([]uint64, len(data)/8)
	for i := range all {
		all[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
	return all
}

// require tells of a field that is whole, and wrong.
func (d *decoder) require(ok bool, field string) {
	if !ok && d.bad == "" {
		d.bad = field
	}
}

// batch takes all that is left.
func (d *decoder) batch() []message {
	data := d.data
	d.data = nil
	all, ok := parseBatch(data)
	d.require(ok, "batch")
	return all
}

// finish judges the whole body: first whether it ends where its fields do, then the fields.
func (d *decoder) finish() error {
	if d.short || len(d.data) > 0 {
		return &fault{code: malformed, text: "the fields do not add up to the frame"}
	}
	if d.bad != "" {
		return invalid(d.bad)
	}
	return nil
}

type message struct{ key, payload []byte }

func (m message) size() int { return len(m.key) + len(m.payload) }

// sizeOf tells how many bytes of keys and payloads there are.
func sizeOf(all []message) int {
	sum := 0
	for _, m := range all {
		sum += m.size()
	}
	return sum
}

// fieldSize tells how many bytes a batch takes on the wire.
func fieldSize(all []message) int { return 4 + 8*(len(all)+1) + sizeOf(all) }

// parseBatch tells whether the columns add up.
func parseBatch(data []byte) ([]message, bool) {
	if len(data) < 4 {
		return nil, false
	}
	count := uint64(binary.LittleEndian.Uint32(data))
	if count == 0 || uint64(len(data)) < 4+8*(count+1) {
		return nil, false
	}
	row := 4 * int(count+1)
	keys, payloads, rest := data[4:4+row], data[4+row:4+2*row], data[4+2*row:]
	keyEnd, ok := lastOffset(keys)
	if !ok || keyEnd > len(rest) {
		return nil, false
	}
	payloadEnd, ok := lastOffset(payloads)
	if !ok || keyEnd+payloadEnd != len(rest) {
		return nil, false
	}
	all := make([]message, count)
	for i := range all {
		all[i].key = column(keys, rest[:keyEnd], i)
		all[i].payload = column(payloads, rest[keyEnd:], i)
	}
	return all, true
}

// lastOffset tells the last of a row of offsets, and whether they begin at 0 and never decrease.
func lastOffset(row []byte) (int, bool) {
	if binary.LittleEndian.Uint32(row) != 0 {
		return 0, false
	}
	last := uint32(0)
	for ; len(row) > 0; row = row[4:] {
		next := binary.LittleEndian.Uint32(row)
		if next < last || next > math.MaxInt32 {
			return 0, false
		}
		last = next
	}
	return int(last), true
}

func column(offsets, data []byte, i int) []byte {
	from, to := binary.LittleEndian.Uint32(offsets[4*i:]), binary.LittleEndian.Uint32(offsets[4*i+4:])
	return data[from:to]
}
