package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// kind says what a worker tells.
type kind string

const (
	competing kind = "competing"
	waiting   kind = "waiting" // somebody else has the lease
	acquired  kind = "acquired"
	did       kind = "did" // an item
	renewed   kind = "renewed"
	troubled  kind = "troubled" // the backend failed, and may yet answer
	refused   kind = "refused"  // the ledger has refused a write: its token was stale
	lost      kind = "lost"
	stopping  kind = "stopping" // the work has ended
	released  kind = "released"
	exited    kind = "exited" // the process has ended: from who started it
)

// report is what a worker tells, for people or, as a line of JSON, for programs.
type report struct {
	Time   time.Time     `json:"time"`
	Worker string        `json:"worker"`
	Kind   kind          `json:"kind"`
	Token  int64         `json:"token,omitempty"`
	Item   int64         `json:"item,omitempty"`    // its number; of renewed, how often
	Left   time.Duration `json:"left_ns,omitempty"` // how long the lease can still be trusted
	Holder *holder       `json:"holder,omitempty"`
	Text   string        `json:"text,omitempty"`
}

// holder is who has the lease, as the backend tells.
type holder struct {
	Owner    string            `json:"owner"`
	Token    int64             `json:"token"`
	Left     *time.Duration    `json:"left_ns,omitempty"` // nil if the backend does not tell
	Breaking bool              `json:"breaking,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// waitingFor reports whom this worker waits for.
func waitingFor(record leasing.Record) report {
	if record.Unconfirmed {
		return report{Kind: waiting, Text: "somebody has just taken it; who, is not written yet"}
	}
	h := &holder{Owner: record.Owner, Token: record.Token, Breaking: record.Breaking, Metadata: record.Metadata}
	if left, known := record.Remaining(); known {
		h.Left = &left
	}
	return report{Kind: waiting, Holder: h}
}

// line is the report for people.
func (r report) line() string {
	switch r.Kind {
	case competing:
		return r.Text
	case waiting:
		if r.Holder == nil {
			return "waits: " + r.Text
		}
		return "waits: " + r.Holder.line()
	case acquired:
		return fmt.Sprintf("HAS THE LEASE, token %d, for %s unless renewed", r.Token, seconds(r.Left))
	case did:
		return fmt.Sprintf("did item %-3d the lease has %s left", r.Item, seconds(r.Left))
	case renewed:
		return fmt.Sprintf("renewed the lease, %s left again (%d so far)", seconds(r.Left), r.Item)
	case troubled:
		return "trouble: " + r.Text
	case refused:
		return "its write was refused: " + r.Text
	case lost:
		return "HAS LOST THE LEASE: " + r.Text
	case stopping:
		return "stops its work: " + r.Text
	case released:
		if r.Text != "" {
			return "could not tell the backend that it gives the lease up: " + r.Text
		}
		return "has given the lease up"
	}
	return "is gone: " + r.Text // exited
}

func (h *holder) line() string {
	text := fmt.Sprintf("%s has the lease, token %d, ", h.Owner, h.Token)
	switch {
	case h.Left == nil:
		text += "for how long the backend does not tell"
	case h.Breaking:
		text += "broken, it ends in " + seconds(*h.Left)
	default:
		text += "for " + seconds(*h.Left) + " unless renewed"
	}
	for _, key := range slices.Sorted(maps.Keys(h.Metadata)) {
		text += ", " + key + "=" + h.Metadata[key]
	}
	return text
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// printer prints a report. It may be called from several goroutines.
type printer func(report)

// textTo prints lines for people.
func textTo(out io.Writer) printer {
	var mu sync.Mutex
	return func(r report) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, "%s %s  %s\n", r.Time.Format("15:04:05.000"), r.Worker, oneLine(r.line()))
	}
}

// jsonTo prints lines of JSON.
func jsonTo(out io.Writer) printer {
	var mu sync.Mutex
	encoder := json.NewEncoder(out)
	return func(r report) {
		mu.Lock()
		defer mu.Unlock()
		_ = encoder.Encode(r) // without a reader there is nobody to tell
	}
}

// oneLine keeps an error of several lines on one.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }
