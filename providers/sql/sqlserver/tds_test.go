package sqlserverlease

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// tdsServer speaks enough of TDS for go-mssqldb: it answers log-ins, reads and writes, but does not execute the writes. So tests
// against it include the client library. See [MS-TDS], https://learn.microsoft.com/openspecs/windows_protocols/ms-tds.
type tdsServer struct {
	t        testing.TB
	listener net.Listener
	mu       sync.Mutex
	held     bool           // reads show another claim
	answer   func(w *reply) // writes the answer to a write; nil to hang up
	login    int32          // the error of a log-in
	writes   int
}

// reply builds an answer.
type reply struct {
	bytes.Buffer
	half, never bool
}

func newTDS(t testing.TB) *tdsServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &tdsServer{t: t, listener: listener, answer: success}
	var all sync.WaitGroup
	t.Cleanup(func() { listener.Close(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer conn.Close(); s.serve(conn) })
		}
	})
	return s
}

func (s *tdsServer) open() *Provider {
	s.t.Helper()
	p, err := OpenURL(bounded(s.t), "sqlserver://app:secret@"+s.listener.Addr().String()+"?encrypt=disable&database=app")
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, p.Close()) })
	return p
}

// set changes the server's behavior.
func (s *tdsServer) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *tdsServer) writeCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// The types of packets.
const (
	packetReply    = 4
	packetPrelogin = 18
	packetLogin    = 16
)

func (s *tdsServer) serve(conn net.Conn) {
	for {
		kind, payload, err := packet(conn)
		if err != nil {
			return
		}
		w := &reply{}
		switch kind {
		case packetPrelogin: // a version, and no encryption
			w.Write([]byte{0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xff, 16, 0, 0, 0, 0, 0, 2})
		case packetLogin:
			s.signIn(w)
		default:
			if !s.request(w, payload) {
				return
			}
		}
		if w.never {
			_, _ = io.Copy(io.Discard, conn) // until the client hangs up
			return
		}
		answer := w.Bytes()
		header := []byte{packetReply, 1, 0, 0, 0, 0, 1, 0}
		binary.BigEndian.PutUint16(header[2:], uint16(len(answer)+len(header)))
		if w.half {
			answer = answer[:len(answer)/2]
		}
		if _, err := conn.Write(append(header, answer...)); err != nil || w.half {
			return
		}
	}
}

// packet reads a request, which may come in several packets.
func packet(conn net.Conn) (kind byte, payload []byte, err error) {
	for {
		header := make([]byte, 8)
		if _, err := io.ReadFull(conn, header); err != nil {
			return 0, nil, err
		}
		part := make([]byte, int(binary.BigEndian.Uint16(header[2:]))-len(header))
		if _, err := io.ReadFull(conn, part); err != nil {
			return 0, nil, err
		}
		if payload = append(payload, part...); header[1]&1 != 0 {
			return header[0], payload, nil
		}
	}
}

func (s *tdsServer) signIn(w *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.login != 0 {
		w.fail(s.login)
		return
	}
	name := ucs2("fake")
	w.WriteByte(0xad) // LOGINACK, TDS 7.4
	w.number(2, int64(10+len(name)))
	w.Write([]byte{1, 0x74, 0, 0, 4, byte(len(name) / 2)})
	w.Write(name)
	w.Write([]byte{16, 0, 0, 0})
	w.done(0)
}

// request answers a batch. It returns false to hang up.
func (s *tdsServer) request(w *reply, payload []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UnixMicro()
	switch kindIn(payload) {
	case "exists", "keyed":
		w.row(true)
	case "version":
		w.row(int64(1))
	case "read":
		if !s.held {
			w.row(int64(0), int64(0), "", "", nil, "{}", nil, int64(0), false, "", "", []byte{}, "", "", int64(0), now, now, int64(0))
			break
		}
		w.row(now, now, "another", "o", int64(60e6), "{}", now, now+60e6, false, "", "", []byte{}, "", "", int64(0), now, now, int64(0))
	case "insert":
		s.writes++
		if s.answer == nil {
			return false
		}
		s.answer(w)
	default:
		w.done(0)
	}
	return true
}

func kindIn(payload []byte) string {
	for _, k := range kinds {
		if bytes.Contains(payload, ucs2(k.part)) {
			return k.kind
		}
	}
	return ""
}

func ucs2(text string) (all []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		all = binary.LittleEndian.AppendUint16(all, unit)
	}
	return all
}

// success is the answer to a batch that has written one row.
func success(w *reply) {
	w.WriteByte(0xac) // RETURNVALUE
	w.number(2, 0)
	name := ucs2("@written")
	w.WriteByte(byte(len(name) / 2))
	w.Write(name)
	w.WriteByte(1)
	w.number(4, 0)
	w.number(2, 0)
	w.Write([]byte{0x26, 8, 8}) // INTN
	w.number(8, 1)
	w.WriteByte(0x79) // RETURNSTATUS
	w.number(4, 0)
	w.done(0)
}

// fail adds a server error.
func (w *reply) fail(number int32) {
	var e reply
	e.number(4, int64(number))
	e.Write([]byte{1, 14})
	text := ucs2("failed")
	e.number(2, int64(len(text)/2))
	e.Write(text)
	e.Write([]byte{0, 0})
	e.number(4, 1)
	w.WriteByte(0xaa) // ERROR
	w.number(2, int64(e.Len()))
	w.Write(e.Bytes())
	w.done(2)
}

func (w *reply) done(status int64) {
	w.WriteByte(0xfe) // DONEPROC
	w.number(2, status)
	w.number(2, 0)
	w.number(8, 0)
}

func (w *reply) number(size int, n int64) {
	for range size {
		w.WriteByte(byte(n))
		n >>= 8
	}
}

// row adds a row of one result.
func (w *reply) row(values ...driver.Value) {
	w.WriteByte(0x81) // COLMETADATA
	w.number(2, int64(len(values)))
	var row reply
	row.WriteByte(0xd1) // ROW
	for _, value := range values {
		w.number(4, 0)
		w.number(2, 1)
		switch value := value.(type) {
		case nil:
			w.Write([]byte{0x26, 8})
			row.WriteByte(0)
		case int64:
			w.Write([]byte{0x26, 8})
			row.WriteByte(8)
			row.number(8, value)
		case bool:
			w.Write([]byte{0x68, 1})
			row.Write([]byte{1, 0})
			if value {
				row.Bytes()[row.Len()-1] = 1
			}
		case string:
			w.Write([]byte{0xe7, 0x40, 0x1f, 9, 4, 0xd0, 0, 0x34})
			row.number(2, int64(len(ucs2(value))))
			row.Write(ucs2(value))
		case []byte:
			w.Write([]byte{0xa5, 0, 4})
			row.number(2, int64(len(value)))
			row.Write(value)
		}
		w.WriteByte(0)
	}
	w.Write(row.Bytes())
	w.done(0)
}

func TestVerbsThroughTheClientLibrary(t *testing.T) {
	s := newTDS(t)
	p := s.open()
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.InDelta(t, time.Now().UnixMicro(), grant.Token, 60e6)
	s.set(func() { s.held = true })
	_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	record, err := p.Inspect(bounded(t), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, []any{true, "o", time.Minute}, []any{record.Held, record.Owner, record.TTL})
}

// T290: the connection is cut while the server works, or in the middle of its answer, or the answer says nothing about the
// outcome.
func TestTrap_T290_AConnectionThatIsCut(t *testing.T) {
	for name, answer := range map[string]func(w *reply){
		"before the answer":       nil,
		"in the answer":           func(w *reply) { success(w); w.half = true },
		"an answer that is empty": func(w *reply) { w.done(0) },
		"a row and no number":     func(w *reply) { w.row(int64(1)) },
		"a severe error":          func(w *reply) { w.fail(596) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newTDS(t)
			s.set(func() { s.answer = answer })
			p := s.open()
			_, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
			require.ErrorIs(t, err, abstractions.ErrUnavailable)
			require.False(t, abstractions.NotApplied(err))
			require.Equal(t, 1, s.writeCount(), "it is not repeated")
			s.set(func() { s.answer = success })
			_, err = p.Acquire(bounded(t), claimOf("m", time.Minute))
			require.NoError(t, err)
		})
	}
}

// T290: a call returns with its context, although go-mssqldb would wait for the server, and its outcome is unknown.
func TestTrap_T290_ACallThatIsGivenUp(t *testing.T) {
	s := newTDS(t)
	s.set(func() { s.answer = func(w *reply) { w.never = true } })
	p := s.open()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, abstractions.NotApplied(err))
	require.Less(t, time.Since(began), 4*time.Second, "before cancelDrainTimeout of go-mssqldb")
}

// T291, T292: errors from the server, as returned by the client library.
func TestTrap_T291_ErrorsThroughTheClientLibrary(t *testing.T) {
	s := newTDS(t)
	p := s.open()
	once := func(number int32, then func()) {
		s.set(func() {
			s.answer = func(w *reply) {
				w.fail(number)
				s.answer = success
				then()
			}
		})
	}
	once(1205, func() {})
	_, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.Equal(t, 2, s.writeCount())

	once(2627, func() { s.held = true })
	_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)

	s.set(func() { s.held = false })
	once(40501, func() {})
	_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.True(t, abstractions.NotApplied(err))

	s.set(func() { s.login = 18456 })
	_, err = s.open().Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	require.True(t, abstractions.NotApplied(err))
	require.NotContains(t, err.Error(), "secret")
}
