package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// json prints a value as one line.
func (a *app) json(value any) error {
	return providerkit.WriteJSON(a.out, value)
}

// table prints rows, of which the first is the head. Text of other users is inert on a terminal.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, inert(strings.Join(row, "\t")))
	}
	return w.Flush()
}

// all prints items, as a table under a head or as a line of JSON each.
func all[T any](a *app, head []string, items []T, row func(T) []string) error {
	rows := [][]string{head}
	for _, item := range items {
		rows = append(rows, row(item))
		if a.output == "json" {
			if err := a.json(item); err != nil {
				return err
			}
		}
	}
	if a.output == "json" {
		return nil
	}
	return a.table(rows)
}

// inert spells out characters that are invisible on a terminal or change the look of others, except for the tab.
func inert(text string) string {
	cells := strings.Split(text, "\t")
	for i := range cells {
		cells[i] = providerkit.Visible(cells[i])
	}
	return strings.Join(cells, "\t")
}

// shown is a record as JSON. Times are the backend's, durations in seconds.
type shown struct {
	Name        string              `json:"name"`
	Held        bool                `json:"held"`
	Owner       string              `json:"owner,omitempty"`
	Fingerprint leasing.Fingerprint `json:"fingerprint,omitzero"`
	Token       int64               `json:"token"`
	TTL         float64             `json:"ttl_s,omitempty"`
	Infinite    bool                `json:"infinite,omitempty"`
	Remaining   *float64            `json:"remaining_s,omitempty"` // absent where it is not known
	AcquiredAt  time.Time           `json:"acquired_at,omitzero"`
	RenewedAt   time.Time           `json:"renewed_at,omitzero"` // by the acquire or a renewal; absent where it is not known
	ExpiresAt   time.Time           `json:"expires_at,omitzero"`
	Breaking    bool                `json:"breaking,omitempty"`
	BrokenBy    string              `json:"broken_by,omitempty"`
	BreakReason string              `json:"break_reason,omitempty"`
	Unconfirmed bool                `json:"unconfirmed,omitempty"`
	Metadata    map[string]string   `json:"metadata,omitempty"`
	Waiters     []waiter            `json:"waiters,omitempty"` // inspect asks for them
}

// waiter is a Waiting as JSON.
type waiter struct {
	Owner       string              `json:"owner"`
	Fingerprint leasing.Fingerprint `json:"fingerprint"`
	Since       time.Time           `json:"since"`
	Waited      float64             `json:"waited_s"`
}

func show(r leasing.Record) shown {
	s := shown{Name: r.Name, Held: r.Held, Token: r.Token}
	if !r.Held {
		return s // the other fields may be of any holder
	}
	s.Owner, s.Fingerprint, s.AcquiredAt, s.ExpiresAt, s.Metadata = r.Owner, r.Fingerprint, r.AcquiredAt, r.ExpiresAt, r.Metadata
	s.RenewedAt, _ = r.LastRenewed()
	s.Breaking, s.BrokenBy, s.BreakReason, s.Unconfirmed = r.Breaking, r.BrokenBy, r.BreakReason, r.Unconfirmed
	if s.Infinite = r.TTL == leasing.Infinite; !s.Infinite {
		s.TTL = r.TTL.Seconds()
	}
	if left, known := r.Remaining(); known {
		seconds := left.Seconds()
		s.Remaining = &seconds
	}
	return s
}

// left is the time left, for a person.
func (s shown) left() string {
	switch {
	case !s.Held:
		return "-"
	case s.Infinite:
		return "for ever"
	case s.Remaining == nil:
		return "unknown"
	}
	return rounded(time.Duration(*s.Remaining * float64(time.Second)))
}

// state returns the state of the name as a text for people.
func (s shown) state() string {
	switch {
	case !s.Held && s.Token == 0:
		return "never held"
	case !s.Held:
		return "free"
	case s.Breaking:
		return "ending"
	}
	return "held"
}

// holder returns the holder of the name, as far as it is known.
func (s shown) holder() string {
	switch {
	case !s.Held:
		return "-"
	case s.Unconfirmed:
		return "not confirmed"
	}
	return s.Owner
}

// rounded returns a duration as text, without insignificant digits.
func rounded(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// metadata is on one line, in order.
func (s shown) metadata() string {
	var pairs []string
	for key, value := range s.Metadata {
		pairs = append(pairs, key+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}
