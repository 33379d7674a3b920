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

// The statuses of scripts/prelude.lua.
const (
	Seen        = 1 // the text of the name, clock
	Ended       = 2
	Lost        = 3 // why; who broke it and why, a line each, if that is known
	Stale       = 4 // latest token
	Broken      = 5 // whether it was held, token, time left
	Quarantined = 6 // time left
	Failed      = 7 // Redis' error
	Voted       = 8 // of scripts/vote.lua: a text
)

// List is a reply other than an integer. Reading beyond its end, or the wrong
// type, marks it as bad.
type List struct {
	Status int64
	Rest   []any
	Bad    bool
}

func (l *List) next() any {
	if len(l.Rest) == 0 {
		l.Bad = true
		return nil
	}
	v := l.Rest[0]
	l.Rest = l.Rest[1:]
	return v
}

func (l *List) Int() int64 {
	n, ok := l.next().(int64)
	l.Bad = l.Bad || !ok
	return n
}

func (l *List) Text() string {
	s, ok := l.next().(string)
	l.Bad = l.Bad || !ok
	return s
}

func (l *List) Millis() time.Duration { return millis(l.Int()) }

// instant is a server's time, in microseconds since 1970.
func (l *List) instant() time.Time {
	micros, err := strconv.ParseInt(l.Text(), 10, 64)
	l.Bad = l.Bad || err != nil
	return time.UnixMicro(micros)
}

// Number returns an integer reply, and otherwise the list.
func (r Reply) Number() (n int64, other *List, err error) {
	if r.Err != nil {
		return 0, nil, r.Err
	}
	switch v := r.Value.(type) {
	case int64:
		return v, nil, nil
	case string: // a token
		if n, err = strconv.ParseInt(v, 10, 64); err == nil {
			return n, nil, nil
		}
	case []any:
		l := &List{Rest: v}
		if l.Status = l.Int(); !l.Bad {
			return 0, l, nil
		}
	}
	return 0, nil, fmt.Errorf("%w: the script replied %T", abstractions.ErrUnavailable, r.Value)
}

// Acquired reads the reply to an acquire.
func (r Reply) Acquired(name string) (token int64, err error) {
	token, l, err := r.Number()
	if l == nil {
		return token, err
	}
	switch l.Status {
	case Seen:
		held, err := l.Refusal(name)
		if err != nil {
			return 0, err
		}
		return 0, held
	case Ended:
		return 0, fmt.Errorf("%w, or broken: this ID can't hold the name any more", abstractions.ErrReleased)
	}
	return 0, l.Unexpected()
}

// Refusal reads the particulars of Seen where that is why an acquire was refused.
func (l *List) Refusal(name string) (*abstractions.HeldError, error) {
	record, reserved, err := l.seen(name)
	if err != nil {
		return nil, err
	}
	if !record.Held {
		record.Now = time.Time{}
	}
	return &abstractions.HeldError{Holder: record, RetryAfter: reserved}, nil
}

// Renewed reads the reply to a renewal.
func (r Reply) Renewed() error {
	_, l, err := r.Number()
	if l == nil {
		return err
	}
	if l.Status == Lost {
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

// Done reads a reply that is 0 if all went well.
func (r Reply) Done() error {
	_, l, err := r.Number()
	if l == nil {
		return err
	}
	return l.Unexpected()
}

// Broken reads the reply to a break.
func (r Reply) Broken() (abstractions.BreakResult, error) {
	_, l, err := r.Number()
	if l == nil {
		return abstractions.BreakResult{}, err
	}
	switch l.Status {
	case Broken:
		result := abstractions.BreakResult{WasHeld: l.Int() == 1, Token: l.Int(), Remaining: l.Millis()}
		if !l.Bad {
			return result, nil
		}
	case Stale:
		if token := l.Int(); !l.Bad {
			return abstractions.BreakResult{}, fmt.Errorf("%w: the latest is %d", abstractions.ErrStale, token)
		}
	}
	return abstractions.BreakResult{}, l.Unexpected()
}

// Record reads the reply to an inspection.
func (r Reply) Record(name string) (abstractions.Record, error) {
	_, l, err := r.Number()
	switch {
	case l == nil:
		return abstractions.Record{}, err
	case l.Status != Seen:
		return abstractions.Record{}, l.Unexpected()
	}
	record, _, err := l.seen(name)
	return record, err
}

// Unexpected is the error for a reply that none of the cases before it was for.
func (l *List) Unexpected() error {
	switch l.Status {
	case Failed:
		if text := l.Text(); !l.Bad {
			return failure.Of(failure.ScriptError(text))
		}
	case Quarantined:
		if left := l.Millis(); !l.Bad {
			return &QuarantinedError{Left: left}
		}
	}
	return fmt.Errorf("%w: the script replied with status %d", abstractions.ErrUnavailable, l.Status)
}

// seen reads the particulars of Seen: a record, and for how long the name is
// reserved for a waiter.
func (l *List) seen(name string) (r abstractions.Record, reserved time.Duration, err error) {
	text, now := l.Text(), l.instant()
	if l.Bad || len(text) < headLength || text[0] != '2' {
		return r, 0, ErrForm
	}
	till, err := strconv.ParseInt(text[2:15], 10, 64)
	if err != nil {
		return r, 0, ErrForm
	}
	r.Name, r.Now = name, now
	if r.Token, err = strconv.ParseInt(text[17:33], 10, 64); err != nil {
		return r, 0, ErrForm
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

// ErrForm is for a name, or a vote, that this version does not know how to read.
var ErrForm = fmt.Errorf("%w: the name is stored in a form that is not known here", abstractions.ErrUnavailable)

// details reads the lines of a name that is held, from the ID on.
func details(r *abstractions.Record, text string) (err error) {
	lines := strings.SplitN(text, "\n", 7)
	if len(lines) != 5 && !(r.Breaking && len(lines) == 7) {
		return ErrForm
	}
	numbers := strings.Fields(lines[1])
	ttl, acquired := int64(0), r.Token
	if len(numbers) > 5 { // Redlock's
		r.Token, err = strconv.ParseInt(numbers[5], 10, 64)
	}
	for i, number := range [...]*int64{&ttl, &acquired} {
		if i < len(numbers) && err == nil {
			*number, err = strconv.ParseInt(numbers[i], 10, 64)
		}
	}
	if err != nil || len(numbers) == 0 {
		return ErrForm
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

// EncodeMetadata is "" for nil: that changes nothing.
func EncodeMetadata(metadata map[string]string) string {
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

// QuarantinedError is a node of Redlock that lost its data and casts no vote for
// now.
type QuarantinedError struct {
	Left time.Duration
}

func (e *QuarantinedError) Error() string {
	return fmt.Sprintf("the server is new or may have lost leases, and casts no vote for another %v; Provider.Bootstrap lets new ones vote at once", e.Left)
}

func (e *QuarantinedError) Is(target error) bool { return target == abstractions.ErrUnavailable }
