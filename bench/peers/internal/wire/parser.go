package wire

// parser recognises commands in what a client writes, however it is cut into
// pieces: arrays of bulk strings, and the inline form that is typed by hand.
// See redis.io/docs/latest/develop/reference/protocol-spec, "Sending commands
// to a Redis server" and "Inline commands". The zero parser is at the beginning
// of a stream.
//
// What breaks the protocol is never counted for more than the server could
// make of it; the server would close the connection.
type parser struct {
	state state
	// number is the one being read: a count of arguments, or a length.
	number   int64
	negative bool
	// args is how many arguments of the command are still to come.
	args int64
	// skip is how many bytes of the argument, with its CRLF, are still to come.
	skip int64
}

type state uint8

const (
	atCommand state = iota
	inCount         // after '*'
	atArg
	inLength // after '$'
	inArg
	atLine // after an inline command's first byte
)

// most is more than any count or length that Redis accepts (512 MB), and small
// enough never to overflow.
const most = 1 << 32

// feed takes the next bytes of the stream and returns how many commands ended
// in them.
func (p *parser) feed(b []byte) (commands int64) {
	for len(b) > 0 {
		if p.state == inArg {
			n := min(p.skip, int64(len(b)))
			p.skip -= n
			b = b[n:]
			if p.skip == 0 {
				commands += p.endArg()
			}
			continue
		}
		commands += p.byte(b[0])
		b = b[1:]
	}
	return commands
}

func (p *parser) byte(c byte) (commands int64) {
	switch p.state {
	case atCommand:
		p.begin(c)
	case atArg:
		p.number, p.negative, p.state = 0, false, inLength // after a '$'
	case atLine:
		if c == '\n' {
			p.state = atCommand
			return 1
		}
	case inCount:
		if p.digit(c) {
			p.args, p.state = p.number, atArg
			if p.negative || p.number == 0 { // Redis ignores an empty command
				p.state = atCommand
			}
		}
	case inLength:
		if p.digit(c) {
			p.skip, p.state = p.number+int64(len("\r\n")), inArg
			if p.negative {
				return p.endArg()
			}
		}
	}
	return 0
}

func (p *parser) begin(c byte) {
	switch c {
	case '*':
		p.number, p.negative, p.state = 0, false, inCount
	case '\r', '\n': // an empty line is no command
	default:
		p.state = atLine
	}
}

// digit takes a byte of a number and says whether the number has ended.
func (p *parser) digit(c byte) bool {
	switch {
	case c == '\n':
		return true
	case c == '-':
		p.negative = true
	case c >= '0' && c <= '9':
		p.number = min(p.number*10+int64(c-'0'), most)
	}
	return false
}

func (p *parser) endArg() (commands int64) {
	p.args--
	if p.args > 0 {
		p.state = atArg
		return 0
	}
	p.state = atCommand
	return 1
}
