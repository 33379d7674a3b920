package abstractions

import (
	"fmt"
	"log/slog"
)

// Requests, grants and handovers contain a claim's ID, and an application may log these values. Format
// and LogValue print a fingerprint in place of the ID, with every verb of package fmt and in package
// slog. JSON includes the ID: a Handover is passed on as JSON, and a provider may send a request as
// JSON.

func (r AcquireRequest) Format(s fmt.State, verb rune) {
	type shown AcquireRequest
	r.ID = redactID(r.ID)
	format(s, verb, shown(r))
}

func (r RenewRequest) Format(s fmt.State, verb rune) {
	type shown RenewRequest
	r.ID, r.State = redactID(r.ID), redactState(r.State)
	format(s, verb, shown(r))
}

func (r ReleaseRequest) Format(s fmt.State, verb rune) {
	type shown ReleaseRequest
	r.ID, r.State = redactID(r.ID), redactState(r.State)
	format(s, verb, shown(r))
}

func (r WaitRequest) Format(s fmt.State, verb rune) {
	type shown WaitRequest
	r.ID = redactID(r.ID)
	format(s, verb, shown(r))
}

func (g Grant) Format(s fmt.State, verb rune) {
	type shown Grant
	g.ID, g.State = redactID(g.ID), redactState(g.State)
	format(s, verb, shown(g))
}

func (h Handover) Format(s fmt.State, verb rune) {
	type shown Handover
	h.ID = redactID(h.ID)
	format(s, verb, shown(h))
}

func (r AcquireRequest) LogValue() slog.Value { return logValue(r) }
func (r RenewRequest) LogValue() slog.Value   { return logValue(r) }
func (r ReleaseRequest) LogValue() slog.Value { return logValue(r) }
func (r WaitRequest) LogValue() slog.Value    { return logValue(r) }
func (g Grant) LogValue() slog.Value          { return logValue(g) }
func (h Handover) LogValue() slog.Value       { return logValue(h) }

func redactID(id string) string { return FingerprintOf(id).String() }

// redactState returns the printed form of a provider's state. It names only the type, since the state is opaque and may contain
// the ID.
func redactState(state any) any {
	if state == nil {
		return nil
	}
	return fmt.Sprintf("%T", state)
}

// format prints a value whose type has no Format method, in the default form of package fmt.
func format(s fmt.State, verb rune, value any) { fmt.Fprintf(s, fmt.FormatString(s, verb), value) }

func logValue(value fmt.Formatter) slog.Value { return slog.StringValue(fmt.Sprintf("%+v", value)) }
