package script

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
)

// The statuses of scripts/prelude.lua, and statusOK for a lone integer or token.
const (
	statusOK    = -1
	Seen        = 1 // the text of the name, clock
	Ended       = 2
	Lost        = 3 // reason; breaker and break reason, a line each, if known
	Stale       = 4 // latest token
	Broken      = 5 // whether it was held, token, time left
	Quarantined = 6 // time left
	Failed      = 7 // Redis' error
)

// List is a parsed reply. A read beyond its end, or of the wrong type, sets Bad.
type List struct {
	Status int64 // 0 if there is no status
	Rest   []any
	Bad    bool
	number int64
	err    error // the error if there is no reply
}

// Read parses a reply.
func (r Reply) Read() List {
	l := List{err: r.Err}
	switch v := r.Value.(type) {
	case int64:
		l.Status, l.number = statusOK, v
	case string:
		if l.number = l.Parse(v); !l.Bad {
			l.Status = statusOK
		}
	case []any:
		l.Rest = v
		l.Status = l.Int()
	}
	return l
}

func next[T any](l *List) (v T) {
	ok := len(l.Rest) > 0
	if ok {
		v, ok = l.Rest[0].(T)
		l.Rest = l.Rest[1:]
	}
	l.Bad = l.Bad || !ok
	return v
}

func (l *List) Int() int64            { return next[int64](l) }
func (l *List) Text() string          { return next[string](l) }
func (l *List) Millis() time.Duration { return millis(l.Int()) }

// Parse reads a number in a text of the reply.
func (l *List) Parse(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	l.Bad = l.Bad || err != nil
	return n
}

// ErrEnded is the error of an ID that can't acquire the name any more.
var ErrEnded = fmt.Errorf("%w, or broken: this ID can't hold the name any more", abstractions.ErrReleased)

// Done reads a reply that is a number if all went well.
func (r Reply) Done() error {
	if l := r.Read(); l.Status != statusOK {
		return l.Unexpected()
	}
	return nil
}

// Failure returns the error of a failed command of the operation, or nil.
func (r Reply) Failure() error {
	if l := r.Read(); l.Status == Failed {
		return l.Unexpected()
	}
	return nil
}

// Acquired reads the reply to an acquire.
func (r Reply) Acquired(name string) (token int64, err error) {
	l := r.Read()
	switch l.Status {
	case statusOK:
		return l.number, nil
	case Seen:
		held, _, err := l.Refusal(name)
		if err == nil {
			err = held
		}
		return 0, err
	case Ended:
		return 0, ErrEnded
	}
	return 0, l.Unexpected()
}

// Refusal reads the details of the status Seen in a refused acquire, and the
// holder's ID, which no caller of the provider receives.
func (l *List) Refusal(name string) (held *abstractions.HeldError, id string, err error) {
	record, id, reserved, err := l.seen(name)
	if err != nil {
		return nil, "", err
	}
	if !record.Held {
		record.Now = time.Time{}
	}
	return &abstractions.HeldError{Holder: record, RetryAfter: reserved}, id, nil
}

// Renewed reads the reply to a renewal.
func (r Reply) Renewed() error {
	l := r.Read()
	switch l.Status {
	case statusOK:
		return nil
	case Lost:
		lost := &abstractions.LostError{Reason: abstractions.LostReason(l.Text())}
		if len(l.Rest) > 0 {
			lost.BrokenBy, lost.BreakReason, _ = strings.Cut(l.Text(), "\n")
		}
		if !l.Bad {
			return lost
		}
	}
	return l.Unexpected()
}

// Broken reads the reply to a break.
func (r Reply) Broken() (result abstractions.BreakResult, err error) {
	l := r.Read()
	switch l.Status {
	case Broken:
		result = abstractions.BreakResult{WasHeld: l.Int() == 1, Token: l.Int(), Remaining: l.Millis()}
		if !l.Bad {
			return result, nil
		}
	case Stale:
		if token := l.Int(); !l.Bad {
			return result, fmt.Errorf("%w: the latest is %d", abstractions.ErrStale, token)
		}
	}
	return abstractions.BreakResult{}, l.Unexpected()
}

// Record reads the reply to an inspection.
func (r Reply) Record(name string) (record abstractions.Record, err error) {
	l := r.Read()
	if l.Status != Seen {
		return record, l.Unexpected()
	}
	record, _, _, err = l.seen(name)
	return record, err
}

// Waiting reads the reply with the waiters.
func (r Reply) Waiting() (list []abstractions.Waiting, err error) {
	l := r.Read()
	if l.Status != Seen {
		return nil, l.Unexpected()
	}
	now := time.UnixMicro(l.Parse(l.Text()))
	for len(l.Rest) > 0 {
		w := abstractions.Waiting{Fingerprint: abstractions.FingerprintOf(l.Text()), Since: time.UnixMicro(l.Parse(l.Text())), Owner: l.Text(), Now: now}
		list = append(list, w)
	}
	if l.Bad {
		return nil, ErrForm
	}
	return list, nil
}

// Unexpected returns the error for a reply that the caller does not expect.
func (l *List) Unexpected() error {
	switch {
	case l.err != nil:
		return l.err
	case l.Status == Failed:
		if text := l.Text(); !l.Bad {
			return failure.Of(failure.ScriptError(text))
		}
	case l.Status == Quarantined:
		if left := l.Millis(); !l.Bad {
			return &QuarantinedError{Left: left}
		}
	}
	return fmt.Errorf("%w: the script replied with status %d", abstractions.ErrUnavailable, l.Status)
}

// seen reads the details of the status Seen: a record, the holder's ID, and the time for which
// the name is reserved for a waiter.
func (l *List) seen(name string) (r abstractions.Record, id string, reserved time.Duration, err error) {
	text := l.Text()
	r.Name, r.Now = name, time.UnixMicro(l.Parse(l.Text()))
	if len(text) < headLength || text[0] != version {
		return r, "", 0, ErrForm
	}
	r.Token = l.Parse(text[17:33])
	left := time.UnixMilli(l.Parse(text[2:15])).Sub(r.Now.Truncate(time.Millisecond))
	switch state := text[16]; {
	case left <= 0:
	case state == 'R':
		reserved = left
	case state == 'H', state == 'B':
		r.Held, r.Breaking = true, state == 'B'
		if text[2:15] != forever {
			r.ExpiresAt = r.Now.Add(left)
		}
		id = l.details(&r, strings.SplitN(text[headLength:], "\n", 7))
	}
	if l.Bad {
		err = ErrForm
	}
	return r, id, reserved, err
}

const (
	headLength = 34 // of the first line, before the ID
	forever    = "9999999999999"
	version    = 'A' // of the text of a name
)

// ErrForm is the error of a name, or a vote, whose form this version can't read.
var ErrForm = fmt.Errorf("%w: the name is stored in an unknown form", abstractions.ErrUnavailable)

// details reads the lines of a held name, from the ID on, and returns the ID.
func (l *List) details(r *abstractions.Record, lines []string) (id string) {
	broken := r.Breaking && len(lines) == 7
	if len(lines) != 5 && !broken {
		l.Bad = true
		return ""
	}
	r.Fingerprint, r.AcquiredAt, r.Owner = abstractions.FingerprintOf(lines[0]), time.UnixMicro(r.Token), lines[3]
	numbers := strings.Split(lines[1], " ")
	r.TTL = millis(l.Parse(numbers[0]))
	if len(numbers) > 1 {
		r.AcquiredAt = time.UnixMicro(l.Parse(numbers[1]))
	}
	if len(numbers) > 5 { // Redlock's
		r.Token = l.Parse(numbers[5])
	}
	if left, known := r.Remaining(); r.TTL == 0 {
		r.TTL = abstractions.Infinite
	} else if known && left > r.TTL { // the time left includes the started millisecond
		r.ExpiresAt = r.Now.Add(r.TTL)
	}
	if broken {
		r.BrokenBy, r.BreakReason = lines[5], lines[6]
	}
	if text := lines[4]; text != "" && json.Unmarshal([]byte(text), &r.Metadata) != nil {
		l.Bad = true
	}
	return lines[0]
}

// EncodeMetadata returns "" for nil, which leaves the stored metadata unchanged.
func EncodeMetadata(metadata map[string]string) string {
	if metadata == nil {
		return ""
	}
	data, _ := json.Marshal(metadata) // strings can always be marshalled
	return string(data)
}

// QuarantinedError is the error of a node of Redlock that lost its data and casts no
// vote for now.
type QuarantinedError struct {
	Left time.Duration
}

func (e *QuarantinedError) Error() string {
	return fmt.Sprintf("the server is new or may have lost leases, and casts no vote for another %v; Provider.Bootstrap lets new servers vote at once", e.Left)
}

func (e *QuarantinedError) Is(target error) bool { return target == abstractions.ErrUnavailable }
