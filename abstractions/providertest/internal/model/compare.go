package model

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// answer returns the part of an error that the rules decide.
func answer(err error) string {
	lost, held := (*abstractions.LostError)(nil), (*abstractions.HeldError)(nil)
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &lost):
		return "lost: " + string(lost.Reason)
	case errors.As(err, &held):
		if held.Holder.Held && !held.Holder.Fingerprint.IsZero() {
			return fmt.Sprintf("held by %s with token %d", held.Holder.Fingerprint, held.Holder.Token)
		}
		return "held"
	case errors.Is(err, abstractions.ErrReleased):
		return "released"
	case errors.Is(err, abstractions.ErrStale):
		return "stale"
	}
	return err.Error()
}

// compareRecord inspects the name. It returns false if the answer came too late to compare.
func (m *model) compareRecord() bool {
	asked := m.e.Now()
	got, err := suite.Send(m.e, m.client().Inspect, abstractions.InspectRequest{Name: m.name})
	m.e.NoError(err, m.text())
	answered := m.e.Now()
	finite := m.record.Held() && m.record.Left != abstractions.Infinite
	if finite && answered.After(m.earliest) {
		return false
	}
	m.sameRecord(got)
	if m.record.Held() {
		m.checkRemaining(got, asked, answered)
	}
	return true
}

// sameHolder compares the record with the holder in a refusal.
func (m *model) sameHolder(err error, sent, returned time.Time) {
	var held *abstractions.HeldError
	if !errors.As(err, &held) || !held.Holder.Held || held.Holder.Fingerprint.IsZero() {
		return
	}
	m.e.GreaterOrEqual(held.RetryAfter, time.Duration(0), m.text())
	m.e.Equal(m.record.Owner, held.Holder.Owner, m.text())
	if shown := held.Holder.Metadata; shown != nil {
		m.e.True(maps.Equal(m.record.Metadata, shown), "the holder's metadata: %v: %s", shown, m.text())
	}
	m.checkRemaining(held.Holder, sent, returned)
}

// checkRemaining requires that the time left, reported between sent and returned, is possible.
// The time left of an infinite lease is not known.
func (m *model) checkRemaining(got abstractions.Record, sent, returned time.Time) {
	left, known := got.Remaining()
	m.e.Equal(m.record.Left != abstractions.Infinite && m.e.Caps.RemainingKnown, known, "Capabilities.RemainingKnown: %s", m.text())
	if known {
		m.checkRemainingTime(left, sent, returned)
	}
}

// sameRecord compares the fields that the rules decide. The backend decides the times.
func (m *model) sameRecord(got abstractions.Record) {
	m.e.False(got.Unconfirmed, m.text())
	want := m.record.Show()
	m.e.Equal(want.Held, got.Held, "%+v: %s", got, m.text())
	if !want.Held {
		got = abstractions.Record{Name: got.Name, Held: got.Held, Token: got.Token}
	}
	if maps.Equal(want.Metadata, got.Metadata) {
		want.Metadata = got.Metadata // a missing map may be nil or empty
	}
	if !want.Held || m.acquired.IsZero() {
		m.acquired = got.AcquiredAt
	}
	m.e.WithinDuration(m.acquired, got.AcquiredAt, m.e.Tolerance(m.e.Long)+m.slowest, "AcquiredAt: %s", m.text())
	want.AcquiredAt, want.ExpiresAt, want.Now = got.AcquiredAt, got.ExpiresAt, got.Now
	m.e.Equal(want, got, m.text())
}

// checkRemainingTime checks the time left of the lease, which was reported between sent and returned.
func (m *model) checkRemainingTime(left time.Duration, sent, returned time.Time) {
	slack := m.e.Tolerance(m.record.TTL) + m.e.Caps.Lateness.After(m.record.TTL) + m.e.Caps.Granularity
	m.e.GreaterOrEqual(left, m.earliest.Sub(returned)-slack, m.text())
	m.e.LessOrEqual(left, m.latest.Sub(sent)+slack, m.text())
}

// compareHistory compares all of the history except times and renewals, if the provider has a
// history.
func (m *model) compareHistory() {
	reader, ok := abstractions.As[abstractions.HistoryReader](m.e.P)
	if !ok {
		return
	}
	entries := m.e.History(reader, abstractions.HistoryRequest{Name: m.name, Limit: 7})
	m.e.Len(entries, len(m.history), m.text())
	for i, want := range m.history {
		want.Time = entries[i].Time
		m.e.Equal(want, entries[i], "entry %d of the history of %s", i, m.text())
		m.e.False(i > 0 && want.Time.Before(entries[i-1].Time), "entry %d is earlier than the one before: %s", i, m.text())
	}
}

// compareListing compares the record in a listing.
func (m *model) compareListing() {
	lister, ok := abstractions.As[abstractions.Lister](m.e.P)
	if !ok {
		return
	}
	records := m.e.List(lister, abstractions.ListRequest{Prefix: m.name})
	if m.record.Token == 0 && len(records) == 0 {
		return // a name with ended IDs but without any grant need not be listed
	}
	m.e.Len(records, 1, m.text())
	if m.updateNow(); m.record.Held() && m.record.Left != abstractions.Infinite && m.e.Now().After(m.earliest) {
		return
	}
	m.sameRecord(records[0])
}
