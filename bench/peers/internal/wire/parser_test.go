package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// command encodes a command for the wire, like a client.
func command(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

func TestParserCounts(t *testing.T) {
	get, eval := command("GET", "a"), command("EVALSHA", "abc", "1", "k", "*2\r\n$1\r\nx\r\n")
	for _, c := range []struct {
		stream string
		want   int64
	}{
		{"", 0},
		{get, 1},
		{get + eval + get, 3},
		{command("SET", "k", ""), 1},
		{command("SET", "k", "\r\n\r\n*1\r\n$4\r\nPING\r\n"), 1}, // an argument that looks like a command
		{command("MULTI") + get + get + command("EXEC"), 4},
		{strings.Repeat(get, 256), 256},
	} {
		var whole parser
		assert.Equal(t, c.want, whole.feed([]byte(c.stream)), "%q", c.stream)
		var bytewise parser
		var n int64
		for i := range len(c.stream) {
			n += bytewise.feed([]byte(c.stream[i : i+1]))
		}
		assert.Equal(t, c.want, n, "%q, byte by byte", c.stream)
		assert.Equal(t, whole, bytewise, "%q", c.stream)
	}
}

// FuzzParserCutsAnywhere checks that the count does not depend on how a stream
// is cut, whatever is in it, and that no stream has more commands than lines.
func FuzzParserCutsAnywhere(f *testing.F) {
	f.Add([]byte(command("SET", "k", "v", "NX", "PX", "30000")+"PING\r\n"), uint8(3))
	f.Add([]byte("*2\r\n$-1\r\n$18446744073709551616\r\n*0\r\n"), uint8(1)) // no client sends this
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		var whole, cut parser
		want := whole.feed(stream)
		assert.LessOrEqual(t, want, int64(bytes.Count(stream, []byte("\n"))))
		var n int64
		for rest := stream; len(rest) > 0; {
			size := min(len(rest), int(piece)+1)
			n += cut.feed(rest[:size])
			rest = rest[size:]
		}
		assert.Equal(t, want, n)
		assert.Equal(t, whole, cut)
	})
}

// FuzzParserCountsCommands checks the count of commands with any arguments.
func FuzzParserCountsCommands(f *testing.F) {
	f.Add("SET", "k", "*1\r\n$4\r\nPING\r\n", uint8(3))
	f.Fuzz(func(t *testing.T, a, b, c string, times uint8) {
		var p parser
		stream := strings.Repeat(command(a, b, c)+command(c), int(times))
		require.Equal(t, 2*int64(times), p.feed([]byte(stream)))
		require.Zero(t, p.skip)
	})
}
