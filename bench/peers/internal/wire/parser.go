package wire

// parser finds commands in the bytes that a client writes, however the bytes are split. A command
// is an array of bulk strings: "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n". See
// redis.io/docs/latest/develop/reference/protocol-spec, "Sending commands to a Redis server". The
// zero parser is at the beginning of a stream.
type parser struct {
	kind   byte // of the header being read: '*' begins a command, '$' an argument
	number int  // in that header
	skip   int  // bytes of the argument, with its CRLF, that are still to come
}

// feed reads the next bytes of the stream and returns how many commands began in
// these bytes.
func (p *parser) feed(b []byte) (commands int64) {
	for len(b) > 0 {
		if p.skip > 0 {
			n := min(p.skip, len(b))
			p.skip -= n
			b = b[n:]
			continue
		}
		c := b[0]
		b = b[1:]
		switch {
		case c == '*' || c == '$':
			p.kind, p.number = c, 0
		case c >= '0' && c <= '9':
			p.number = p.number*10 + int(c-'0')
		case c == '\n' && p.kind == '*':
			commands++
		case c == '\n' && p.kind == '$':
			p.skip = p.number + len("\r\n")
		}
	}
	return commands
}
