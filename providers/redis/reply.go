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
	statusHeld        = 1 // the lease as it is stored, time left (-1 if infinite), clock
	statusFree        = 2 // latest token, clock
	statusReserved    = 3 // latest token, time left
	statusEnded       = 4
	statusLost        = 5 // why; who broke it and why, a line each, if that is known
	statusStale       = 6 // latest token
	statusBroken      = 7 // whether it was held, token, time left
	statusQuarantined = 8 // time left
	statusFailed      = 9 // Redis' error
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
func (l *list) instant() time.Time { return time.UnixMicro(l.int()) }

// number returns an integer reply, and otherwise the list.
func (r reply) number() (n int64, other *list, err error) {
	if r.err != nil {
		return 0, nil, r.err
	}
	switch v := r.value.(type) {
	case int64:
		return v, nil, nil
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

// record reads the particulars of statusHeld.
func (l *list) record(name string) (abstractions.Record, error) {
	stored, left, now := l.text(), l.int(), l.instant()
	if l.bad {
		return abstractions.Record{}, errForm
	}
	r, err := parseLease(stored)
	r.Name, r.Held, r.Now = name, true, now
	if left < 0 {
		r.TTL = abstractions.Infinite
	} else {
		// Redis counts in milliseconds, and time stands still while a script runs.
		r.ExpiresAt = now.Truncate(time.Millisecond).Add(millis(left))
	}
	return r, err
}

var errForm = fmt.Errorf("%w: the lease is stored in a form that is not known here", abstractions.ErrUnavailable)

// parseLease reads what scripts/acquire.lua writes.
func parseLease(stored string) (r abstractions.Record, err error) {
	stored, r.Breaking = strings.CutPrefix(stored, "!")
	lines := strings.SplitN(stored, "\n", 9)
	switch {
	case len(lines) == 9 && r.Breaking:
		r.BrokenBy, r.BreakReason = lines[7], lines[8]
	case len(lines) != 7:
		return r, errForm
	}
	var numbers [3]int64
	for i, line := range [...]string{lines[1], lines[2], lines[4]} { // token, when acquired, TTL
		if numbers[i], err = strconv.ParseInt(line, 10, 64); err != nil {
			return r, errForm
		}
	}
	r.ID, r.Token, r.AcquiredAt, r.Owner = lines[0], numbers[0], time.UnixMicro(numbers[1]), lines[5]
	if r.TTL = millis(numbers[2]); r.TTL == 0 {
		r.TTL = abstractions.Infinite
	}
	r.Metadata, err = decodeMetadata(lines[6])
	return r, err
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
