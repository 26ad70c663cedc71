package main

// Codes of errors; those below 64 end the connection.
const (
	malformed            uint16 = 1
	frameTooLarge        uint16 = 2
	helloRequired        uint16 = 3
	unsupportedVersion   uint16 = 4
	handshakeTimeout     uint16 = 5
	idleTimeout          uint16 = 7
	slowConsumer         uint16 = 10
	invalidField         uint16 = 64
	unsupported          uint16 = 65
	noSuchTopic          uint16 = 66
	topicExists          uint16 = 67
	tooManyTopics        uint16 = 68
	tooManySubscriptions uint16 = 69
	noSuchSubscription   uint16 = 70
	notInFlight          uint16 = 71
	offsetAhead          uint16 = 72
	epochChanged         uint16 = 73
	messageTooLarge      uint16 = 75
	batchTooLarge        uint16 = 76
	topicFull            uint16 = 77
	sequenceGap          uint16 = 78
	producerUnknown      uint16 = 79
	noMemory             uint16 = 80
	notEmpty             uint16 = 81
	takenOver            uint16 = 82
	tableFull            uint16 = 85
	noSuchName           uint16 = 86
)

var retryable = map[uint16]bool{
	handshakeTimeout: true, idleTimeout: true, slowConsumer: true, topicFull: true, noMemory: true,
}

// A fault is a request's failure, as an Error frame tells it.
type fault struct {
	code  uint16
	field string
	text  string
}

func (f *fault) Error() string { return f.text }

func invalid(field string) *fault {
	return &fault{code: invalidField, field: field, text: field + " has a value outside its range"}
}

func unknown(field string) *fault {
	return &fault{code: unsupported, field: field, text: "this broker does not know this " + field}
}

// fatal tells whether the connection ends with this fault.
func (f *fault) fatal() bool { return f.code < invalidField }

// reply makes the Error; last says that the connection ends whatever the code.
func (f *fault) reply(request byte, last bool) reply {
	flags := byte(0)
	if retryable[f.code] {
		flags |= flagRetryable
	}
	if last || f.fatal() {
		flags |= flagFatal
	}
	var e encoder
	e.u16(f.code)
	e.u8(request)
	e.str(f.field)
	e.u32(0)
	e.str(f.text)
	return reply{isError, flags, e.buf}
}

// A reply lacks only its request's id.
type reply struct {
	typ, flags byte
	body       []byte
}
