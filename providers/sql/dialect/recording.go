package dialect

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Recording configures which changes go into the history table, and their retention.
type Recording struct {
	Changes, Renewals bool
	Retention         time.Duration // 0 means no end
}

// Kept returns the entries of a change for the history table.
func (r Recording) Kept(name string, c *providerkit.Change) (entries []abstractions.NamedEntry) {
	for _, e := range []*providerkit.Note{&c.Expired, &c.Note} {
		if r.Changes && e.Kind != "" && (e.Kind != abstractions.HistoryRenewed || r.Renewals) {
			entries = append(entries, abstractions.NamedEntry{Name: name, HistoryEntry: e.Entry()})
		}
	}
	return entries
}

// NoteArgs returns the columns of an entry.
func NoteArgs(e *abstractions.NamedEntry) []any {
	return []any{e.Name, e.Time.UnixMicro(), string(e.Kind), e.Fingerprint.String(), e.Owner, e.Token, e.Actor, e.Reason}
}
