package main

import (
	"math"
	"sort"
)

const (
	forever  = math.MaxUint64
	maxTTL   = 3_155_760_000_000
	maxRoom  = 1 << 40
	maxItems = 1 << 30
)

// Numbers of settings.
const (
	retentionTTL     = 1
	compactionWindow = 2
	capacity         = 3
	maxBytes         = 4
	maxKeys          = 5
	overflow         = 7
	isTable          = 11
	tombstones       = 12
)

type settings map[byte]uint64

func defaultSettings() settings {
	return settings{
		retentionTTL: 0, compactionWindow: 0, capacity: 10_000, maxBytes: 64 << 20, maxKeys: 100_000, overflow: 0,
	}
}

// inForce are the settings of a topic for which a client has named some. Those of tables are only in a table.
func inForce(named settings) settings {
	all := defaultSettings()
	if named[isTable] == 1 {
		all[retentionTTL], all[tombstones] = forever, 86_400_000
	}
	for number, value := range named {
		if number != isTable || value == 1 {
			all[number] = value
		}
	}
	return all
}

// consistent tells whether settings may be named together.
func (named settings) consistent() bool {
	if named[isTable] != 1 {
		_, isNamed := named[tombstones]
		return !isNamed
	}
	ttl, isNamed := named[retentionTTL]
	return !(isNamed && ttl == 0) && named[compactionWindow] == 0 && named[overflow] == 0
}

// legal tells whether a setting's value is within this broker's range.
func legal(setting byte, value uint64) bool {
	switch setting {
	case retentionTTL, compactionWindow, tombstones:
		return value <= maxTTL || value == forever
	case capacity, maxKeys:
		return 1 <= value && value <= maxItems
	case maxBytes:
		return 1 <= value && value <= maxRoom
	case overflow, isTable:
		return value <= 1
	}
	return true // unknown: that is told otherwise
}

// after adds a duration to a time; forever is later than all times.
func after(t int64, duration uint64) int64 {
	if duration == forever {
		return math.MaxInt64
	}
	return t + int64(duration)*1000
}

// A stored batch: first is the offset of its first message, which may have gone already; size stays until all have.
type stored struct {
	first    uint64
	accepted int64
	messages []message
	size     int
}

func (s *stored) end() uint64 { return s.first + uint64(len(s.messages)) }

type window struct {
	key  string
	ends int64
}

type topic struct {
	name     string
	settings settings
	explicit bool
	epoch    uint64

	batches []*stored
	head    uint64 // the oldest message still readable
	next    uint64
	bytes   int

	open    map[string]int64 // when a key's window ends
	windows []window         // in the order in which they were opened, and so end

	subscriptions map[*subscription]bool // those that have not ended
	positions     map[string]*position
	queues        map[string]*queue

	table *table // nil: it is none
}

func newTopic(name string, epoch uint64, explicit bool) *topic {
	return &topic{
		name: name, settings: defaultSettings(), explicit: explicit, epoch: epoch,
		open: map[string]int64{}, subscriptions: map[*subscription]bool{}, positions: map[string]*position{},
		queues: map[string]*queue{},
	}
}

// expire drops what retention has ended by now.
func (t *topic) expire(now int64) {
	if t.table != nil {
		t.table.expire(now)
		return
	}
	ttl := t.settings[retentionTTL]
	if ttl == 0 || ttl == forever {
		return
	}
	for len(t.batches) > 0 && after(t.batches[0].accepted, ttl) <= now {
		t.dropBelow(t.batches[0].end())
	}
}

// dropBelow moves the head, and frees the batches that lie below it altogether.
func (t *topic) dropBelow(offset uint64) {
	if offset <= t.head {
		return
	}
	t.head = offset
	for len(t.batches) > 0 && t.batches[0].end() <= offset {
		t.bytes -= t.batches[0].size
		t.batches = t.batches[1:]
	}
}

// headAfter tells where the head will be if so many messages and bytes more are stored.
func (t *topic) headAfter(count uint64, size int) uint64 {
	head := t.head
	if total := t.next + count; total > t.settings[capacity] && total-t.settings[capacity] > head {
		head = total - t.settings[capacity]
	}
	bytes := t.bytes + size
	for _, s := range t.batches {
		if s.end() > head {
			if uint64(bytes) <= t.settings[maxBytes] {
				break
			}
			head = s.end()
		}
		bytes -= s.size
	}
	return head
}

// append judges a batch and stores what compaction leaves of it. The result tells which messages were dropped.
func (t *topic) append(all []message, now int64) ([]bool, error) {
	t.expire(now)
	if uint64(len(all)) > t.settings[capacity] || uint64(fieldSize(all)) > t.settings[maxBytes] {
		return nil, &fault{code: batchTooLarge, text: "the batch is larger than the topic"}
	}
	if t.settings[overflow] == 1 {
		if head := t.headAfter(uint64(len(all)), fieldSize(all)); head > t.head && head > t.needed() {
			return nil, &fault{code: topicFull, text: "a reader still needs what would have to go"}
		}
	}
	dropped := t.compact(all, now)
	kept := make([]message, 0, len(all))
	for i, m := range all {
		if !dropped[i] {
			kept = append(kept, m)
		}
	}
	if len(kept) > 0 {
		size := fieldSize(kept)
		head := t.headAfter(uint64(len(kept)), size)
		t.batches = append(t.batches, &stored{first: t.next, accepted: now, messages: kept, size: size})
		t.next += uint64(len(kept))
		t.bytes += size
		t.dropBelow(head)
	}
	return dropped, nil
}

// compact opens windows, and tells which messages fall into one.
func (t *topic) compact(all []message, now int64) []bool {
	dropped := make([]bool, len(all))
	length := t.settings[compactionWindow]
	if length == 0 {
		return dropped
	}
	t.closeWindows(now)
	for i, m := range all {
		if len(m.key) == 0 {
			continue
		}
		key := string(m.key)
		if _, isOpen := t.open[key]; isOpen {
			dropped[i] = true
			continue
		}
		ends := after(now, length)
		t.open[key] = ends
		t.windows = append(t.windows, window{key, ends})
	}
	for uint64(len(t.windows)) > t.settings[maxKeys] {
		t.closeOldest()
	}
	return dropped
}

func (t *topic) closeWindows(now int64) {
	for len(t.windows) > 0 && t.windows[0].ends <= now {
		t.closeOldest()
	}
}

func (t *topic) closeOldest() {
	delete(t.open, t.windows[0].key)
	t.windows = t.windows[1:]
}

// needed tells the oldest offset that somebody has still to be sent, or may be sent again.
func (t *topic) needed() uint64 {
	needed := t.next
	for s := range t.subscriptions {
		if s.position == nil && s.queue == nil {
			needed = min(needed, s.next)
		}
	}
	for _, p := range t.positions {
		needed = min(needed, p.committed)
	}
	for _, q := range t.queues {
		needed = min(needed, q.needed())
	}
	return needed
}

// freeRead drops, with retention 0, what nobody has still to be sent.
func (t *topic) freeRead() {
	if t.settings[retentionTTL] != 0 {
		return
	}
	lowest := t.next
	for s := range t.subscriptions {
		if s.queue == nil {
			lowest = min(lowest, s.next)
		}
	}
	for _, p := range t.positions {
		lowest = min(lowest, p.committed)
	}
	for _, q := range t.queues {
		lowest = min(lowest, q.needed())
	}
	t.dropBelow(lowest)
}

// at finds the batch that holds an offset between head and next.
func (t *topic) at(offset uint64) *stored {
	i := sort.Search(len(t.batches), func(i int) bool { return t.batches[i].end() > offset })
	return t.batches[i]
}

// read finds one message, and when it was accepted; not if it has gone, or is a hole.
func (t *topic) read(offset uint64) (message, int64, bool) {
	if offset < t.head || offset >= t.next {
		return message{}, 0, false
	}
	if t.table != nil {
		r := t.table.row(offset)
		if r == nil {
			return message{}, 0, false
		}
		return r.message, r.accepted, true
	}
	from := t.at(offset)
	return from.messages[offset-from.first], from.accepted, true
}

func (t *topic) isHole(offset uint64) bool {
	return t.table != nil && offset >= t.head && t.table.row(offset) == nil
}

// readableFrom passes holes.
func (t *topic) readableFrom(offset uint64) uint64 {
	if t.table == nil || offset < t.head {
		return offset
	}
	return t.table.following(offset)
}

// since finds the first message accepted at a time or after it.
func (t *topic) since(us uint64) uint64 {
	if t.table != nil {
		return t.table.since(us)
	}
	for _, s := range t.batches {
		if uint64(s.accepted) >= us {
			return max(s.first, t.head)
		}
	}
	return t.next
}
