package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

const maxPage = 20

type entry map[string]any

// describe tells the smaller part of what docs/use/describe.md lists.
func (c *conn) describe(d *decoder, now int64) (reply, error) {
	kind := d.u8()
	prefix, after := d.str("prefix"), d.str("after")
	limit := d.u16()
	d.require(kind <= 3, "kind")
	d.require(limit > 0, "limit")
	if err := d.finish(); err != nil {
		return reply{}, err
	}
	if kind == 0 {
		b := c.broker
		return described(0, entry{
			"name": "go broker 1", "boot": b.boot, "now_us": now,
			"topics": len(b.topics), "connections": len(b.connections), "producers": len(b.producers),
		})
	}
	page, more := c.broker.entries(kind, prefix), byte(0)
	sort.Slice(page, func(i, j int) bool { return nameOf(page[i]) < nameOf(page[j]) })
	page = page[sort.Search(len(page), func(i int) bool { return nameOf(page[i]) > after }):]
	if size := min(int(limit), maxPage); len(page) > size {
		page, more = page[:size], 1
	}
	return described(more, map[string][]entry{[]string{1: "topics", 2: "subscriptions", 3: "connections"}[kind]: page})
}

func nameOf(e entry) string { return e["name"].(string) }

func described(more byte, told any) (reply, error) {
	text, err := json.Marshal(told)
	return reply{describe | isReply, 0, append([]byte{more}, text...)}, err
}

func (b *broker) entries(kind byte, prefix string) []entry {
	all := []entry{}
	add := func(begins string, e entry) {
		if strings.HasPrefix(begins, prefix) {
			all = append(all, e)
		}
	}
	if kind == 1 {
		for _, t := range b.topics {
			add(t.name, entry{
				"name": t.name, "epoch": t.epoch, "explicit": t.explicit, "head": t.head, "next_offset": t.next,
				"bytes": t.bytes, "subscriptions": len(t.subscriptions), "needed": t.needed(),
			})
		}
		return all
	}
	for _, c := range b.connections {
		if kind == 3 {
			name := fmt.Sprintf("%020d", c.number)
			add(name, entry{"name": name, "connection": c.number, "client": c.client, "subscriptions": len(c.subscriptions)})
			continue
		}
		for _, s := range c.subscriptions {
			add(s.topic.name, entry{
				"name": fmt.Sprintf("%s#%d.%d", s.topic.name, c.number, s.id), "connection": c.number, "id": s.id,
				"topic": s.topic.name, "session": s.name, "committed": s.committed, "cursor": s.next,
				"in_flight": s.count, "in_flight_bytes": s.bytes,
			})
		}
	}
	return all
}
