-- zaichik's wire protocol, for Wireshark and tshark. How to use it: docs/understand/wireshark.md.
--
-- The tables between the marks come from the protocol's declaration; `make docs` renews them, and a test keeps them
-- current. The rest is written by hand: how each kind of field is read, how a frame is shown, and how frames are found
-- in a TCP connection. A frame is checked in the order in which the broker checks it. The first mistake is marked as
-- `zaichik.malformed`, and the rest of that frame is left alone.

-- [[[cog
-- import cog, sys
-- sys.path.insert(0, "protocol")
-- import dissector
-- cog.outl(dissector.tables())
-- ]]]
local PORT, HELLO_MAX_FRAME = 8889, 4096
local LENGTH_SIZE, MIN_LENGTH, HEADER_SIZE = 4, 8, 12

local NAMES = {
  Start = {
    [0] = "EARLIEST", [1] = "LATEST", [2] = "OFFSET", [3] = "TIME",
  },
  Kind = {
    [0] = "BROKER", [1] = "TOPICS", [2] = "SUBSCRIPTIONS", [3] = "CONNECTIONS", [4] = "COUNTERS", [5] = "WINDOWS",
    [6] = "MARKS", [7] = "FURTHEST",
  },
  Outcome = {
    [0] = "DONE", [1] = "RETRY", [2] = "REJECT", [3] = "RELEASE", [4] = "GIVE_BACK", [5] = "LOSE", [6] = "EXTEND",
  },
  DeadAction = {
    [0] = "LIST", [1] = "REVIVE", [2] = "FORGET", [3] = "FORGET_NAME",
  },
  ErrorCode = {
    [1] = "MALFORMED", [2] = "FRAME_TOO_LARGE", [3] = "HELLO_REQUIRED", [4] = "UNSUPPORTED_VERSION",
    [5] = "HANDSHAKE_TIMEOUT", [6] = "FRAME_TIMEOUT", [7] = "IDLE_TIMEOUT", [8] = "AUTH_FAILED",
    [9] = "TOO_MANY_CONNECTIONS", [10] = "SLOW_CONSUMER", [11] = "INTERNAL", [12] = "TLS_REQUIRED",
    [64] = "INVALID_FIELD", [65] = "UNSUPPORTED", [66] = "NO_SUCH_TOPIC", [67] = "TOPIC_EXISTS",
    [68] = "TOO_MANY_TOPICS", [69] = "TOO_MANY_SUBSCRIPTIONS", [70] = "NO_SUCH_SUBSCRIPTION", [71] = "NOT_IN_FLIGHT",
    [72] = "OFFSET_AHEAD", [73] = "EPOCH_CHANGED", [74] = "FORBIDDEN", [75] = "MESSAGE_TOO_LARGE",
    [76] = "BATCH_TOO_LARGE", [77] = "TOPIC_FULL", [78] = "SEQUENCE_GAP", [79] = "PRODUCER_UNKNOWN", [80] = "NO_MEMORY",
    [81] = "NOT_EMPTY", [82] = "TAKEN_OVER", [83] = "STORAGE_FULL", [84] = "DAMAGED", [85] = "TABLE_FULL",
    [86] = "NO_SUCH_NAME",
  },
  EndCode = {
    [1] = "UNTIL", [2] = "TAKEN_OVER", [3] = "FORBIDDEN", [4] = "DELETED", [5] = "DAMAGED",
  },
  GoAwayCode = {
    [1] = "STOPPING", [2] = "DISCONNECTED", [3] = "STORAGE", [4] = "CREDENTIALS_ENDED",
  },
  Setting = {
    [1] = "RETENTION_TTL_MS", [2] = "COMPACTION_WINDOW_MS", [3] = "CAPACITY", [4] = "MAX_BYTES", [5] = "MAX_KEYS",
    [6] = "JOURNAL_BYTES", [7] = "OVERFLOW", [8] = "DURABLE", [9] = "LOG_BYTES", [10] = "SEGMENT_BYTES", [11] = "TABLE",
    [12] = "TOMBSTONES_MS",
  },
  Type = {
    [1] = "Hello", [2] = "CreateTopic", [3] = "Publish", [4] = "Subscribe", [5] = "Unsubscribe", [6] = "Commit",
    [7] = "Ping", [8] = "Close", [9] = "Describe", [10] = "Delete", [11] = "Disconnect", [12] = "Explain",
    [13] = "AdvanceClock", [14] = "Settle", [15] = "Dead", [129] = "Welcome", [130] = "TopicCreated",
    [131] = "Published", [132] = "Subscribed", [133] = "Unsubscribed", [134] = "Committed", [135] = "Pong",
    [136] = "Closed", [137] = "Described", [138] = "Deleted", [139] = "Disconnected", [140] = "Explained",
    [141] = "ClockAdvanced", [142] = "Settled", [143] = "DeadPage", [255] = "Error", [64] = "Messages", [65] = "Lagged",
    [66] = "SubscriptionEnded", [67] = "GoAway", [68] = "DeletionsMissed",
  },
}

-- A field: its name, its kind, how filters call it, its meaning, and the names of its values.
local FRAMES = {
  [0x01] = {
    name = "Hello", role = "request", flags = {},
    body = {
      { "magic", "4 bytes", "zaichik.magic", "the letters ZAIK" },
      { "version_min", "u16", "zaichik.version_min", "oldest protocol version the client speaks" },
      { "version_max", "u16", "zaichik.version_max", "newest" },
      { "features", "u64", "zaichik.features", "bits of what it can do beyond the version" },
      { "client", "str", "zaichik.client", "its name, for the broker's log" },
      { "auth", "u8", "zaichik.auth", "0 none, 1 token, 2 password" },
      { "user", "str", "zaichik.user", "who it is; empty with auth 0 and 1" },
      { "secret", "secret", "zaichik.secret", "token or password; empty with auth 0" },
    },
  },
  [0x02] = {
    name = "CreateTopic", role = "request", flags = {},
    body = {
      { "topic", "str", "zaichik.topic", "its name: 1 to 200 bytes" },
      { "settings", "settings", "zaichik.settings", "a count u8, then that many of setting u8 and value u64" },
    },
  },
  [0x03] = {
    name = "Publish", role = "request", flags = { { "tombstones", 1 } },
    body = {
      { "producer", "u64", "zaichik.producer", "0: this batch is not numbered" },
      { "sequence", "u64", "zaichik.sequence", "the batch's number, counted by the producer; 0 with producer 0" },
      { "topic", "str", "zaichik.topic", "where to; created if it does not exist" },
      { "batch", "batch", "zaichik.batch", "the messages: all the rest of the frame" },
    },
  },
  [0x04] = {
    name = "Subscribe", role = "request", flags = { { "owned", 1 }, { "shared", 2 }, { "by_key", 4 } },
    body = {
      { "topic", "str", "zaichik.topic", "what to read; created if it does not exist" },
      { "name", "str", "zaichik.name", "empty: anonymous, its position dies with the connection" },
      { "start", "u8", "zaichik.subscribe.start", "0 earliest, 1 latest, 2 an offset, 3 a time", NAMES.Start },
      { "value", "u64", "zaichik.value", "the offset, or the time in µs since 1970; 0 for earliest and latest" },
      { "epoch", "u64", "zaichik.epoch", "the epoch the client believes in; 0: any" },
      { "until", "u64", "zaichik.until", "the subscription ends before this offset; all ones: never" },
      { "credit", "u32", "zaichik.credit", "messages that may be in flight, at least 1" },
      { "credit_bytes", "u32", "zaichik.credit_bytes", "bytes of keys and payloads that may be in flight, at least 1" },
      { "owner", "u64 if owned", "zaichik.owner", "only with OWNED: which subscription asks, a random number, not 0" },
      { "attempt", "u32 if owned", "zaichik.attempt",
        "only with OWNED: greater each time that owner asks for the name" },
      { "timeout_ms", "u32 if shared", "zaichik.timeout_ms",
        "only with SHARED: how long it may have a message; 0: for ever" },
      { "max_deliveries", "u16 if shared", "zaichik.max_deliveries",
        "only with SHARED: after so many that failed, a message is dead; 0: never" },
      { "tickets", "u64[] if shared", "zaichik.subscribe.tickets",
        "only with SHARED: those that its program still has: a count u32, then as many u64" },
    },
  },
  [0x05] = {
    name = "Unsubscribe", role = "request", flags = { { "forget", 1 } },
    body = {
      { "subscription", "u32", "zaichik.unsubscribe.subscription", "the id of the Subscribe" },
    },
  },
  [0x06] = {
    name = "Commit", role = "request", flags = {},
    body = {
      { "subscription", "u32", "zaichik.commit.subscription", "the id of the Subscribe" },
      { "next", "u64", "zaichik.next", "everything below this offset is settled" },
    },
  },
  [0x07] = {
    name = "Ping", role = "request", flags = {},
    body = {
      { "value", "u64", "zaichik.value", "anything" },
    },
  },
  [0x08] = {
    name = "Close", role = "request", flags = {},
    body = {},
  },
  [0x09] = {
    name = "Describe", role = "request", flags = {},
    body = {
      { "kind", "u8", "zaichik.kind",
        "0 to 3: broker, topics, subscriptions, connections; 4 to 7: see below", NAMES.Kind },
      { "prefix", "str", "zaichik.prefix", "only names that begin so; with kinds 5 to 7, the name of the topic" },
      { "after", "str", "zaichik.after", "only names after this one; empty: from the first" },
      { "limit", "u16", "zaichik.limit", "names a page, at least 1" },
    },
  },
  [0x0a] = {
    name = "Delete", role = "request", flags = { { "if_empty", 1 } },
    body = {
      { "topic", "str", "zaichik.topic", "its name" },
      { "epoch", "u64", "zaichik.epoch", "the epoch it must have; 0: any" },
    },
  },
  [0x0b] = {
    name = "Disconnect", role = "request", flags = {},
    body = {
      { "connection", "u64", "zaichik.connection", "its number, as Describe tells it" },
    },
  },
  [0x0c] = {
    name = "Explain", role = "request", flags = {},
    body = {
      { "topic", "str", "zaichik.topic", "its name" },
      { "subscription", "str", "zaichik.explain.subscription",
        "only for this one: its name, or CONNECTION.ID; empty: for each" },
      { "offset", "u64", "zaichik.offset", "which message, if `key` is empty" },
      { "time", "u64", "zaichik.time", "with a key: the message nearest to this time; 0: the newest" },
      { "key", "rest", "zaichik.key", "empty: the message at `offset`; else one of this key" },
    },
  },
  [0x0d] = {
    name = "AdvanceClock", role = "request", flags = {},
    body = {
      { "to_us", "u64", "zaichik.to_us", "µs since 1970, not less than the clock's time" },
    },
  },
  [0x0e] = {
    name = "Settle", role = "request", flags = { { "delayed", 1 } },
    body = {
      { "subscription", "u32", "zaichik.settle.subscription", "the id of the Subscribe" },
      { "outcome", "u8", "zaichik.outcome",
        "0 done, 1 retry, 2 reject, 3 release, 4 give back, 5 lose, 6 extend", NAMES.Outcome },
      { "delay_ms", "u64 if delayed", "zaichik.delay_ms",
        "only with DELAYED: a retry comes again after it; an extend lasts as long" },
      { "reason", "str", "zaichik.reason", "why, for people, if it failed" },
      { "tickets", "u64[]", "zaichik.settle.tickets", "which messages: a count u32, then as many u64" },
    },
  },
  [0x0f] = {
    name = "Dead", role = "request", flags = { { "selected", 1 } },
    body = {
      { "topic", "str", "zaichik.topic", "the name's topic" },
      { "name", "str", "zaichik.name", "the name" },
      { "user", "str", "zaichik.user", "whose it is; empty: that of the user who asks" },
      { "action", "u8", "zaichik.action", "0 list, 1 revive, 2 forget, 3 forget the name", NAMES.DeadAction },
      { "from_offset", "u64", "zaichik.from_offset", "list, or act on, what has this offset or a later one" },
      { "count", "u16", "zaichik.count", "how many, at most; at least 1" },
      { "offsets", "u64[] if selected", "zaichik.offsets",
        "only with SELECTED: of these alone: a count u32, then as many u64" },
    },
  },
  [0x81] = {
    name = "Welcome", role = "reply", flags = {},
    body = {
      { "version", "u16", "zaichik.version", "the newest both speak" },
      { "features", "u64", "zaichik.features", "the bits both set" },
      { "boot", "u64", "zaichik.boot", "a random number that this run of the broker keeps; never 0" },
      { "max_frame", "u32", "zaichik.max_frame", "largest length field accepted from now on" },
      { "max_batch", "u32", "zaichik.max_batch", "most messages in one batch" },
      { "max_message", "u32", "zaichik.max_message",
        "most bytes of keys and payloads in one batch, and so in one message" },
      { "max_credit", "u32", "zaichik.max_credit", "most messages a subscription may have in flight" },
      { "idle_ms", "u32", "zaichik.idle_ms",
        "silence after which a client that promised HEARTBEAT is closed; 0: never" },
      { "broker", "str", "zaichik.broker", "its name and version" },
    },
  },
  [0x82] = {
    name = "TopicCreated", role = "reply", flags = {},
    body = {
      { "created", "u8", "zaichik.created", "1 if this request made the topic, 0 if it was there" },
      { "epoch", "u64", "zaichik.epoch",
        "the topic's identity: µs since 1970 when it was made, or a little more; never 0" },
      { "settings", "settings", "zaichik.settings", "all settings in force, in the order of their numbers" },
    },
  },
  [0x83] = {
    name = "Published", role = "reply", flags = { { "duplicate", 1 }, { "durable", 2 } },
    body = {
      { "first_offset", "u64", "zaichik.first_offset",
        "offset of the first message stored; the next one to come if none was" },
      { "stored", "u32", "zaichik.stored", "messages stored: they have consecutive offsets" },
      { "compacted", "u32", "zaichik.compacted", "messages dropped because their key's window was open" },
      { "subscribers", "u32", "zaichik.subscribers", "subscriptions of the topic at that moment" },
      { "dropped", "rest", "zaichik.dropped",
        "if compacted > 0: a bit a message, lowest bit first, 1 if it was dropped" },
    },
  },
  [0x84] = {
    name = "Subscribed", role = "reply", flags = { { "named", 1 }, { "resumed", 2 }, { "table", 4 } },
    body = {
      { "epoch", "u64", "zaichik.epoch", "the topic's identity" },
      { "start", "u64", "zaichik.subscribed.start", "the next offset to be delivered, if it is still there" },
      { "live", "u64", "zaichik.live", "the next offset to be published: what lies below is history" },
      { "committed", "u64", "zaichik.committed", "everything below is settled" },
    },
  },
  [0x85] = {
    name = "Unsubscribed", role = "reply", flags = {},
    body = {},
  },
  [0x86] = {
    name = "Committed", role = "reply", flags = {},
    body = {
      { "committed", "u64", "zaichik.committed", "everything below is settled" },
    },
  },
  [0x87] = {
    name = "Pong", role = "reply", flags = {},
    body = {
      { "value", "u64", "zaichik.value", "the Ping's" },
    },
  },
  [0x88] = {
    name = "Closed", role = "reply", flags = {},
    body = {},
  },
  [0x89] = {
    name = "Described", role = "reply", flags = {},
    body = {
      { "more", "u8", "zaichik.more", "1 if another page follows: ask again with `after` set to the last name" },
      { "json", "json", "zaichik.json", "UTF-8 JSON: all the rest of the frame" },
    },
  },
  [0x8a] = {
    name = "Deleted", role = "reply", flags = {},
    body = {},
  },
  [0x8b] = {
    name = "Disconnected", role = "reply", flags = {},
    body = {},
  },
  [0x8c] = {
    name = "Explained", role = "reply", flags = {},
    body = {
      { "json", "json", "zaichik.json", "UTF-8 JSON: all the rest of the frame" },
    },
  },
  [0x8d] = {
    name = "ClockAdvanced", role = "reply", flags = {},
    body = {},
  },
  [0x8e] = {
    name = "Settled", role = "reply", flags = {},
    body = {
      { "late", "u64[]", "zaichik.late", "tickets that were not open: a count u32, then as many u64" },
    },
  },
  [0x8f] = {
    name = "DeadPage", role = "reply", flags = {},
    body = {
      { "more", "u8", "zaichik.more", "1 if there are more, after the last that was listed or acted on" },
      { "done", "u32", "zaichik.done", "how many were revived or forgotten" },
      { "next", "u64", "zaichik.next", "where to go on: ask again with it as `from_offset`" },
      { "json", "json", "zaichik.json", "of a list, UTF-8 JSON: all the rest of the frame" },
    },
  },
  [0xff] = {
    name = "Error", role = "reply", flags = { { "retryable", 1 }, { "fatal", 2 } },
    body = {
      { "code", "u16", "zaichik.error.code", "which error", NAMES.ErrorCode },
      { "request_type", "u8", "zaichik.request_type",
        "the type of the request it answers; 0 if it was not read that far", NAMES.Type },
      { "field", "str", "zaichik.field", "the field at fault; empty if no single one is" },
      { "retry_after_ms", "u32", "zaichik.retry_after_ms", "how long to wait before trying again; 0: not told" },
      { "message", "str", "zaichik.message", "cause and next step, for a person" },
    },
  },
  [0x40] = {
    name = "Messages", role = "event", flags = { { "holes", 1 }, { "redelivered", 2 }, { "tickets", 4 } },
    body = {
      { "base", "u64", "zaichik.base", "offset of the first message" },
      { "accepted_us", "i64", "zaichik.accepted_us", "when the broker accepted them: µs since 1970" },
      { "ticket", "u64 if tickets", "zaichik.ticket",
        "only with TICKETS: that of the first message; the others follow it by one each" },
      { "number", "u16 if tickets", "zaichik.number",
        "only with TICKETS: which delivery of each message this is, from 1" },
      { "deltas", "u32[] if holes", "zaichik.deltas", "only with HOLES: a count u32 (the batch's), then as many u32" },
      { "batch", "batch", "zaichik.batch", "the messages: all the rest of the frame" },
    },
  },
  [0x41] = {
    name = "Lagged", role = "event", flags = {},
    body = {
      { "from_offset", "u64", "zaichik.from_offset", "first offset missed" },
      { "to_offset", "u64", "zaichik.to_offset", "first offset not missed: the subscription goes on there" },
    },
  },
  [0x42] = {
    name = "SubscriptionEnded", role = "event", flags = {},
    body = {
      { "code", "u16", "zaichik.subscriptionended.code", "why", NAMES.EndCode },
      { "next", "u64", "zaichik.next", "the offset it stood at" },
      { "text", "str", "zaichik.text", "the same in words" },
    },
  },
  [0x43] = {
    name = "GoAway", role = "event", flags = {},
    body = {
      { "code", "u16", "zaichik.goaway.code", "why", NAMES.GoAwayCode },
      { "text", "str", "zaichik.text", "the same in words" },
    },
  },
  [0x44] = {
    name = "DeletionsMissed", role = "event", flags = {},
    body = {
      { "below", "u64", "zaichik.below", "the tombstones that are gone have offsets below this one" },
    },
  },
}
-- [[[end]]]

local zaichik = Proto("zaichik", "zaichik")

-- -- what filters can name ----------------------------------------------------------------------------------------

local SIZES = { u8 = 1, u16 = 2, u32 = 4, u64 = 8, i64 = 8 }
local TYPES = {
  u8 = ftypes.UINT8, u16 = ftypes.UINT16, u32 = ftypes.UINT32, u64 = ftypes.UINT64, i64 = ftypes.INT64,
  str = ftypes.STRING, json = ftypes.STRING, ["4 bytes"] = ftypes.STRING, rest = ftypes.BYTES,
}

local registered = {}

local function register(field)
  registered[#registered + 1] = field
  return field
end

local function declare(name, kind, abbreviation, meaning, names)
  local digits = SIZES[kind] and base.DEC
  return register(ProtoField.new(name, abbreviation, TYPES[kind] or ftypes.NONE, names, digits, nil, meaning))
end

for _, shape in pairs(FRAMES) do
  for _, field in ipairs(shape.body) do
    local name, kind, abbreviation, meaning, names = table.unpack(field)
    field.condition, field.kind = kind:match(" if (%w+)$"), kind:match("^(.-) if ") or kind
    field.name, field.proto = name, declare(name, field.kind, abbreviation, meaning, names)
  end
  for _, flag in ipairs(shape.flags) do
    flag.name, flag.bit = table.unpack(flag)
    flag.proto = register(
      ProtoField.new(flag.name:upper(), "zaichik.flags." .. flag.name, ftypes.BOOLEAN, nil, 8, flag.bit))
  end
end

local HEADER = {
  length = declare("length", "u32", "zaichik.length", "bytes that follow this field"),
  type = declare("type", "u8", "zaichik.type", "which frame this is", NAMES.Type),
  flags = register(ProtoField.new("flags", "zaichik.flags", ftypes.UINT8, nil, base.HEX)),
  zero = declare("zero", "u16", "zaichik.zero", "always 0"),
  id = declare("id", "u32", "zaichik.id", "of the request, in requests and replies; of the subscription, in events"),
}
local SETTING = declare("setting", "u8", "zaichik.setting", "which setting", NAMES.Setting)
local SETTING_VALUE = declare("value", "u64", "zaichik.setting.value", "its value")
local DELTA = declare("delta", "u32", "zaichik.delta", "the message's offset, less base")
local NUMBER = declare("number", "u64", "zaichik.item", "one of a list of numbers")
local BATCH = {
  count = declare("count", "u32", "zaichik.batch.count", "messages"),
  key_offsets = declare("key_offsets", "rest", "zaichik.batch.key_offsets", "where keys begin and end"),
  payload_offsets = declare("payload_offsets", "rest", "zaichik.batch.payload_offsets", "where payloads begin and end"),
}
local MESSAGE = {
  item = declare("message", "none", "zaichik.batch.message", "a message of a batch"),
  offset = declare("offset", "u64", "zaichik.batch.offset", "the message's place in its topic"),
  key = declare("key", "rest", "zaichik.batch.key", "its key"),
  payload = declare("payload", "rest", "zaichik.batch.payload", "its payload"),
  size = declare("payload length", "u32", "zaichik.batch.payload_length", "bytes of its payload"),
}
local REQUEST_IN = register(ProtoField.new("request in", "zaichik.request_in", ftypes.FRAMENUM, frametype.REQUEST))
local REPLY_IN = register(ProtoField.new("reply in", "zaichik.reply_in", ftypes.FRAMENUM, frametype.RESPONSE))
local REPLY_TIME = register(ProtoField.new("reply time", "zaichik.reply_time", ftypes.RELATIVE_TIME))
zaichik.fields = registered

local MALFORMED = ProtoExpert.new(
  "zaichik.malformed", "not zaichik's protocol", expert.group.MALFORMED, expert.severity.ERROR)
local REFUSED = ProtoExpert.new(
  "zaichik.refused", "the broker refused a request", expert.group.RESPONSE_CODE, expert.severity.NOTE)
local UNGREETED = ProtoExpert.new(
  "zaichik.ungreeted", "no Hello came before: the capture begins later, or the client is wrong",
  expert.group.SEQUENCE, expert.severity.WARN)
zaichik.experts = { MALFORMED, REFUSED, UNGREETED }

-- A name as text for Wireshark's list: without the characters that end a text or change the direction of the next ones.
local function harmless(text)
  local function escaped(letters) return letters:gsub(".", function(byte) return ("\\x%02x"):format(byte:byte()) end) end
  return (text:gsub("%c", escaped):gsub("\226\128[\170-\174]", escaped):gsub("\226\129[\166-\169]", escaped))
end

-- -- reading a frame ----------------------------------------------------------------------------------------------
-- A reader knows the frame's bytes, which of them comes next (`at`), and what was read so far (`values`).

local function fail(problem)
  error({ problem = problem }, 0)
end

local function take(reader, size, what)
  if reader.at + size > reader.data:len() then
    fail("the frame ends inside its " .. what)
  end
  local range = reader.data:range(reader.at, size)
  reader.at = reader.at + size
  return range
end

local function whole(reader, start)
  return reader.data:range(start, reader.at - start)
end

-- Wireshark replaces bytes that are not UTF-8, so they are there if the text is no longer the bytes.
local function is_utf8(range)
  return range:string(ENC_UTF_8) == range:raw()
end

local function read_text(reader, name)
  local start = reader.at
  local size = take(reader, 2, name):le_uint()
  local text = size > 0 and take(reader, size, name)
  if text and not is_utf8(text) then
    fail(name .. " is not UTF-8")
  end
  return text and text:raw():gsub("\0", "␀") or "", whole(reader, start)
end

local KINDS = {}

for kind, size in pairs(SIZES) do
  KINDS[kind] = function(reader, tree, field)
    local range = take(reader, size, field.name)
    tree:add_le(field.proto, range)
    return size < 8 and range:le_uint() or range:le_uint64()
  end
end

KINDS["4 bytes"] = function(reader, tree, field)
  local range = take(reader, 4, field.name)
  tree:add(field.proto, range)
  if range:string() ~= "ZAIK" then fail(field.name .. " is not ZAIK") end
end

function KINDS.str(reader, tree, field)
  local text, range = read_text(reader, field.name)
  tree:add(field.proto, range, text)
  return text
end

function KINDS.secret(reader, tree, field)  -- is not shown, as `zaichik dissect` does not
  local _, range = read_text(reader, field.name)
  tree:add(field.proto, range):append_text((": %d bytes"):format(range:len() - 2))
end

function KINDS.rest(reader, tree, field)
  local size = reader.data:len() - reader.at
  if size > 0 then tree:add(field.proto, take(reader, size, field.name)) end
  return size
end
KINDS.json = KINDS.rest

function KINDS.settings(reader, tree, field)
  local start = reader.at
  local count = take(reader, 1, field.name):le_uint()
  take(reader, 9 * count, field.name)
  local list = tree:add(field.proto, whole(reader, start)):append_text((": %d"):format(count))
  for at = start + 1, start + 9 * count, 9 do
    local setting, value = reader.data:range(at, 1), reader.data:range(at + 1, 8)
    local item = list:add(SETTING, setting)
    item:set_len(9)
    item:append_text(" = " .. tostring(value:le_uint64()))
    item:add_le(SETTING_VALUE, value)
  end
end

KINDS["u32[]"] = function(reader, tree, field)  -- the deltas of Messages
  local start = reader.at
  local count = take(reader, 4, field.name):le_uint()
  take(reader, 4 * count, field.name)
  local list, deltas = tree:add(field.proto, whole(reader, start)):append_text((": %d"):format(count)), {}
  for index = 1, count do
    local range = reader.data:range(start + 4 * index, 4)
    deltas[index] = range:le_uint()
    list:add_le(DELTA, range)
  end
  return deltas
end

KINDS["u64[]"] = function(reader, tree, field)
  local start = reader.at
  local count = take(reader, 4, field.name):le_uint()
  if count > reader.data:len() then fail("the frame ends inside its " .. field.name) end
  take(reader, 8 * count, field.name)
  local list = tree:add(field.proto, whole(reader, start)):append_text((": %d"):format(count))
  for index = 0, count - 1 do
    list:add_le(NUMBER, reader.data:range(start + 4 + 8 * index, 8))
  end
end

-- A column of a batch: `count` + 1 offsets. Returns them, and the bytes they lie in.
local function read_column(reader, count, name)
  local range = take(reader, 4 * (count + 1), "batch, in the offsets of its " .. name)
  local offsets = {}
  for index = 0, count do
    offsets[index] = range:range(4 * index, 4):le_int()
    if offsets[index] < (offsets[index - 1] or 0) or offsets[0] ~= 0 then
      fail(name .. " offsets must begin at 0 and never decrease")
    end
  end
  return offsets, range
end

local function add_bytes(tree, field, range)
  local item, text = tree:add(field, range), range:range(0, math.min(range:len(), 40)):raw()
  if text:match("^[\32-\126]+$") then item:append_text(' "' .. text .. '"') end
end

function KINDS.batch(reader, tree, field)
  local start = reader.at
  local item = tree:add(field.proto, reader.data:range(start, reader.data:len() - start))
  local counted = take(reader, 4, "batch, in its count")
  local count = counted:le_uint()
  item:add_le(BATCH.count, counted)
  if count == 0 then fail("a batch of no messages") end
  local keys, key_range = read_column(reader, count, "key")
  local payloads, payload_range = read_column(reader, count, "payload")
  item:add(BATCH.key_offsets, key_range)
  item:add(BATCH.payload_offsets, payload_range)
  local keys_at = reader.at
  local payloads_at = keys_at + keys[count]
  local there = reader.data:len() - keys_at
  if keys[count] + payloads[count] ~= there then
    fail(("offsets end at %d + %d bytes, here are %d"):format(keys[count], payloads[count], there))
  end
  reader.at = reader.data:len()
  item:append_text((": %d message%s"):format(count, count > 1 and "s" or ""))

  local base, deltas = reader.values.base, reader.values.deltas
  for index = 0, count - 1 do
    local key, size = keys[index + 1] - keys[index], payloads[index + 1] - payloads[index]
    local message = item:add(MESSAGE.item, payload_range:range(4 * index, 8)):append_text((" %d"):format(index))
    if base then message:add(MESSAGE.offset, base + (deltas and deltas[index + 1] or index)):set_generated() end
    if key > 0 then add_bytes(message, MESSAGE.key, reader.data:range(keys_at + keys[index], key)) end
    message:add(MESSAGE.size, size):set_generated()
    if size > 0 then add_bytes(message, MESSAGE.payload, reader.data:range(payloads_at + payloads[index], size)) end
  end
  return count
end

-- What goes with what, which no single field can tell.
local CHECKS = {
  Messages = function(values)
    if values.deltas and #values.deltas ~= values.batch then fail("one delta a message is needed") end
  end,
  Published = function(values)
    local bits = values.compacted > 0 and values.stored + values.compacted or 0
    if values.dropped ~= math.ceil(bits / 8) then fail("dropped must have a bit a message if one was compacted") end
  end,
}

local function read_flags(reader, tree, shape)
  local bits, known = reader.data:range(5, 1), 0
  local item = tree:add(HEADER.flags, bits)
  for _, flag in ipairs(shape and shape.flags or {}) do
    known = known + flag.bit
    reader.flags[flag.name] = bit.band(bits:uint(), flag.bit) ~= 0
    item:add(flag.proto, bits)
  end
  return bit.band(bits:uint(), bit.bnot(known))
end

local function read(reader, tree, shape, from)
  tree:add_le(HEADER.length, reader.data:range(0, 4))
  tree:add(HEADER.type, reader.data:range(4, 1))
  local unknown = read_flags(reader, tree, shape)
  tree:add_le(HEADER.zero, reader.data:range(6, 2))
  tree:add_le(HEADER.id, reader.data:range(8, 4))
  if reader.data:range(6, 2):le_uint() ~= 0 then fail("bytes 6 and 7 of a frame must be 0") end
  if not shape then fail("no frame has this type") end
  if (shape.role == "request") ~= (from == "client") then fail("a " .. from .. " sends no " .. shape.name) end
  if unknown ~= 0 then fail(("%s has no flag bits 0x%02x"):format(shape.name, unknown)) end
  for _, field in ipairs(shape.body) do
    if not field.condition or reader.flags[field.condition] then
      reader.values[field.name] = KINDS[field.kind](reader, tree, field)
    end
  end
  if reader.at < reader.data:len() then fail("bytes after the last field") end
  if CHECKS[shape.name] then CHECKS[shape.name](reader.values) end
end

-- -- what is known from earlier packets ---------------------------------------------------------------------------
-- Wireshark shows a packet as often as somebody looks at it, in any order. So what depends on those before it is
-- found out when a frame is first seen, and kept.

local connections, seen

function zaichik.init()
  connections, seen = {}, {}
end

local function connection_of(data, pinfo, from)
  local source = ("%s/%d"):format(tostring(pinfo.src), pinfo.src_port)
  local target = ("%s/%d"):format(tostring(pinfo.dst), pinfo.dst_port)
  local name = from == "client" and source .. " " .. target or target .. " " .. source
  if not connections[name] then
    -- TLS begins with a record of type 22 and version 3, which is no length of a Hello.
    local is_tls = data:len() > 1 and data:range(0, 2):uint() == 0x1603
    connections[name] = { is_tls = is_tls, waiting = {} }
  end
  return connections[name]
end

-- Which request a reply answers: the oldest one of its id and type that waits.
local function match(waiting, shape, reader, known)
  local id, code = reader.data:range(8, 4):le_uint(), reader.data:range(4, 1):uint()
  if id == 0 or shape.role == "event" then return end
  if shape.name == "Error" then code = reader.values.request_type or 0 end
  local kind = ("%d/%d"):format(id, bit.band(code, 0x7f))
  waiting[kind] = waiting[kind] or {}
  if shape.role == "request" then
    table.insert(waiting[kind], known)
  else
    known.request = table.remove(waiting[kind], 1)
    if known.request then known.request.reply = known end
  end
end

local function first_seen(pinfo, connection, shape, reader)
  local known = { number = pinfo.number, time = pinfo.abs_ts }
  if not shape then return known end
  if shape.name == "Hello" then
    connection.is_greeted, connection.waiting, connection.max_frame = true, {}, nil
  elseif shape.name == "Welcome" then
    connection.max_frame = reader.values.max_frame
  elseif shape.role == "request" and not connection.is_greeted then
    known.is_ungreeted, connection.is_greeted = true, true  -- said once
  end
  match(connection.waiting, shape, reader, known)
  return known
end

-- What is known of the packet's next frame.
local function remembered(pinfo, connection, shape, reader)
  local count = tonumber(pinfo.private.zaichik_frames or "0")
  pinfo.private.zaichik_frames = tostring(count + 1)
  local place = ("%d/%d"):format(pinfo.number, count)
  seen[place] = seen[place] or first_seen(pinfo, connection, shape, reader)
  return seen[place]
end

-- -- showing frames -----------------------------------------------------------------------------------------------

local function show_known(item, known)
  if known.is_ungreeted then item:add_proto_expert_info(UNGREETED) end
  if known.request then
    local seconds = known.time - known.request.time
    item:add(REQUEST_IN, known.request.number):set_generated()
    item:add(REPLY_TIME, NSTime.new(math.floor(seconds), math.floor(seconds % 1 * 1e9))):set_generated()
  elseif known.reply then
    item:add(REPLY_IN, known.reply.number):set_generated()
  end
end

local function summary(shape, reader)
  local values, id = reader.values, reader.data:range(8, 4):le_uint()
  local words = { shape and shape.name or "unknown", ("%d"):format(id) }
  if values.topic then table.insert(words, harmless(values.topic)) end
  if values.batch then table.insert(words, ("(%d)"):format(values.batch)) end
  if shape and shape.name == "Error" then table.insert(words, NAMES.ErrorCode[values.code] or "of an unknown code") end
  return table.concat(words, " ")
end

local function show_frame(data, pinfo, tree, connection, from)
  local shape = FRAMES[data:range(4, 1):uint()]
  local reader = { data = data, at = HEADER_SIZE, flags = {}, values = {} }
  local item = tree:add(zaichik, data:range())
  local is_right, problem = pcall(read, reader, item, shape, from)
  if not is_right and type(problem) ~= "table" then error(problem, 0) end
  show_known(item, remembered(pinfo, connection, shape, reader))
  local text = summary(shape, reader)
  if not is_right then
    text = text .. " [malformed]"
    item:add_proto_expert_info(MALFORMED, problem.problem)
  elseif shape.name == "Error" then
    item:add_proto_expert_info(REFUSED, text)
  end
  item:append_text(", " .. text)
  return text
end

-- -- finding frames in a connection -------------------------------------------------------------------------------

-- Returns the bytes of the frame that begins here, and what is wrong with its header, if that shows before all is here.
local function size_of(data, connection, from)
  local length = data:range(0, LENGTH_SIZE):le_uint()
  local most = from == "client" and connection.max_frame or 2 ^ 31  -- no broker allows more
  if length < MIN_LENGTH then return length, ("a frame of length %d; the least is 8"):format(length) end
  if length > most then return length, ("a frame of length %.0f, %.0f at most"):format(length, most) end
  -- Bytes of something else look like a frame of any length, which is not to be waited for.
  local is_frame = data:len() < MIN_LENGTH or FRAMES[data:range(4, 1):uint()] and data:range(6, 2):uint() == 0
  if length > HELLO_MAX_FRAME and not is_frame then return length, "this is no frame" end
  return LENGTH_SIZE + length
end

local function show_rest(data, tree, kind, problem)
  tree:add(zaichik, data:range()):append_text(", out of step"):add_proto_expert_info(kind, problem)
end

-- Shows the frame that the data begin with. Returns its size and its summary; or 0, if more bytes have to come.
local function show_next(data, pinfo, tree, connection, from)
  local size, problem = LENGTH_SIZE, nil
  if data:len() >= LENGTH_SIZE then size, problem = size_of(data, connection, from) end
  if problem then  -- nobody knows where the next frame begins
    show_rest(data, tree, MALFORMED, problem)
    return data:len(), "[malformed]"
  elseif size <= data:len() then
    return size, show_frame(data:range(0, size):tvb(), pinfo, tree, connection, from)
  end
  local is_hello = size <= LENGTH_SIZE + HELLO_MAX_FRAME
  if from == "client" and not connection.is_greeted and not is_hello and data:len() < HEADER_SIZE then
    show_rest(data, tree, UNGREETED, "too large to be a Hello, and too little of it to see what else it is")
    return data:len(), "[too large to be a Hello]"
  end
  pinfo.desegment_len = size - data:len()
  -- Bytes that only complete the length would be put together first, and then not asked for the rest.
  if data:len() < LENGTH_SIZE then pinfo.desegment_len = DESEGMENT_ONE_MORE_SEGMENT end
  return 0
end

function zaichik.dissector(data, pinfo, tree)
  local from = pinfo.dst_port == pinfo.match and "client" or "broker"
  local connection = connection_of(data, pinfo, from)
  if connection.is_tls and not pinfo.private.zaichik_in_tls then
    pinfo.private.zaichik_in_tls = "yes"  -- what it decrypts comes here again
    return Dissector.get("tls"):call(data, pinfo, tree)
  end
  pinfo.cols.protocol = "zaichik"
  local at, shown = 0, {}
  while at < data:len() do
    local size, text = show_next(data:range(at):tvb(), pinfo, tree, connection, from)
    if size == 0 then
      pinfo.desegment_offset = at
      break
    end
    at = at + size
    table.insert(shown, text)
  end
  if #shown > 0 then
    pinfo.cols.info:set((from == "client" and "→ " or "← ") .. table.concat(shown, ", "))
  end
  return data:len()
end

DissectorTable.get("tcp.port"):add(PORT, zaichik)
DissectorTable.get("tls.port"):add(PORT, zaichik)
