package redislease

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// The statuses of scripts/prelude.lua.
const (
	statusSeen        = 1 // the text of the name, clock
	statusEnded       = 2
	statusLost        = 3 // why; who broke it and why, a line each, if that is known
	statusStale       = 4 // latest token
	statusBroken      = 5 // whether it was held, token, time left
	statusQuarantined = 6 // time left
	statusFailed      = 7 // Redis' error
)

// list is a reply other than an integer. Reading beyond its end, or the wrong
// type, marks it as bad.
type list struct {
	status int64
	rest   []any
	bad    bool
}

func (l *list) next() any {
	if len(l.rest) == 0 {
		l.bad = true
		return nil
	}
	v := l.rest[0]
	l.rest = l.rest[1:]
	return v
}

func (l *list) int() int64 {
	n, ok := l.next().(int64)
	l.bad = l.bad || !ok
	return n
}

func (l *list) text() string {
	s, ok := l.next().(string)
	l.bad = l.bad || !ok
	return s
}

func (l *list) millis() time.Duration { return millis(l.int()) }

// instant is a server's time, in microseconds since 1970.
func (l *list) instant() time.Time {
	micros, err := strconv.ParseInt(l.text(), 10, 64)
	l.bad = l.bad || err != nil
	return time.UnixMicro(micros)
}

// number returns an integer reply, and otherwise the list.
func (r reply) number() (n int64, other *list, err error) {
	if r.err != nil {
		return 0, nil, r.err
	}
	switch v := r.value.(type) {
	case int64:
		return v, nil, nil
	case string: // a token
		if n, err = strconv.ParseInt(v, 10, 64); err == nil {
			return n, nil, nil
		}
	case []any:
		l := &list{rest: v}
		if l.status = l.int(); !l.bad {
			return 0, l, nil
		}
	}
	return 0, nil, fmt.Errorf("%w: the script replied %T", abstractions.ErrUnavailable, r.value)
}

// unexpected is the error for a reply that none of the cases before it was for.
func (l *list) unexpected() error {
	switch l.status {
	case statusFailed:
		if text := l.text(); !l.bad {
			return failure(scriptError(text))
		}
	case statusQuarantined:
		if left := l.millis(); !l.bad {
			return &quarantinedError{left: left}
		}
	}
	return fmt.Errorf("%w: the script replied with status %d", abstractions.ErrUnavailable, l.status)
}

// seen reads the particulars of statusSeen: a record, and for how long the name is
// reserved for a waiter.
func (l *list) seen(name string) (r abstractions.Record, reserved time.Duration, err error) {
	text, now := l.text(), l.instant()
	if l.bad || len(text) < headLength || text[0] != '1' {
		return r, 0, errForm
	}
	till, err := strconv.ParseInt(text[2:15], 10, 64)
	if err != nil {
		return r, 0, errForm
	}
	r.Name, r.Now = name, now
	if r.Token, err = strconv.ParseInt(text[17:33], 10, 64); err != nil {
		return r, 0, errForm
	}
	left := time.UnixMilli(till).Sub(now.Truncate(time.Millisecond))
	switch state := text[16]; {
	case left <= 0:
	case state == 'R':
		reserved = left
	case state == 'H', state == 'B':
		r.Held, r.Breaking = true, state == 'B'
		if text[2:15] != forever {
			r.ExpiresAt = now.Add(left)
		}
		err = details(&r, text[headLength:])
	}
	return r, reserved, err
}

const (
	headLength = 34 // of the first line, before the ID
	forever    = "9999999999999"
)

var errForm = fmt.Errorf("%w: the name is stored in a form that is not known here", abstractions.ErrUnavailable)

// details reads the lines of a name that is held, from the ID on.
func details(r *abstractions.Record, text string) (err error) {
	lines := strings.SplitN(text, "\n", 7)
	if len(lines) != 5 && !(r.Breaking && len(lines) == 7) {
		return errForm
	}
	numbers := strings.Fields(lines[1])
	ttl, acquired := int64(0), r.Token
	if len(numbers) > 7 { // Redlock's
		r.Token, err = strconv.ParseInt(numbers[7], 10, 64)
	}
	for i, number := range [...]*int64{&ttl, &acquired} {
		if i < len(numbers) && err == nil {
			*number, err = strconv.ParseInt(numbers[i], 10, 64)
		}
	}
	if err != nil || len(numbers) == 0 {
		return errForm
	}
	r.ID, r.TTL, r.AcquiredAt, r.Owner = lines[0], millis(ttl), time.UnixMicro(acquired), lines[3]
	if ttl == 0 {
		r.TTL = abstractions.Infinite
	}
	if left, known := r.Remaining(); known && r.TTL != abstractions.Infinite && left > r.TTL { // it has the started millisecond too
		r.ExpiresAt = r.Now.Add(r.TTL)
	}
	if r.Breaking && len(lines) == 7 {
		r.BrokenBy, r.BreakReason = lines[5], lines[6]
	}
	r.Metadata, err = decodeMetadata(lines[4])
	return err
}

// encodeMetadata is "" for nil: that changes nothing.
func encodeMetadata(metadata map[string]string) string {
	if metadata == nil {
		return ""
	}
	data, _ := json.Marshal(metadata) // texts can always be written
	return string(data)
}

func decodeMetadata(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	var metadata map[string]string
	if err := json.Unmarshal([]byte(text), &metadata); err != nil {
		return nil, fmt.Errorf("%w: the metadata are no JSON object of texts", abstractions.ErrUnavailable)
	}
	return metadata, nil
}
