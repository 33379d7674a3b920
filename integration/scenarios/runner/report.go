package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	// Exited is the kind of a report that a process has ended.
	Exited = "is gone"
	// Failed is the kind of a report of an error that no scenario expects.
	Failed = "failed"
)

// Report is a record of a worker's log, or a report of the parent. The attributes are those of the samples.
type Report struct {
	Worker string    `json:"-"`
	Kind   string    `json:"msg"`
	At     time.Time `json:"time"` // by the host's clock, which all processes share
	Level  string    `json:"level"`
	Text   string    `json:"-"` // is printed, unless empty

	Token    int64         `json:"token"`
	Trust    time.Duration `json:"trust"` // how long the lease can still be trusted
	Tick     time.Time     `json:"tick"`
	Position int64         `json:"position"`
	Step     int64         `json:"step"`
	Number   int64         `json:"number"`
	Message  string        `json:"message"`
	Edit     string        `json:"edit"`
	Paths    []string      `json:"paths"`
	Phase    string        `json:"phase"`
	Settled  string        `json:"settled"`
	Reason   string        `json:"reason"`
	Err      string        `json:"err"`
}

// parse reads a line of a worker's log.
func parse(worker string, line []byte) Report {
	r := Report{}
	if err := json.Unmarshal(line, &r); err != nil || r.Kind == "" {
		return Report{Worker: worker, Kind: Failed, At: time.Now(), Text: fmt.Sprintf("said %q", line)}
	}
	r.Worker = worker
	if r.Level != "DEBUG" {
		r.Text = r.Kind + attributes(line)
	}
	return r
}

// attributes returns the attributes of a record as text, in the order of the record.
func attributes(line []byte) string {
	var text strings.Builder
	decoder := json.NewDecoder(bytes.NewReader(line))
	_, _ = decoder.Token() // the brace
	for decoder.More() {
		key, _ := decoder.Token()
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			break
		}
		switch key {
		case "time", "level", "msg", "trust":
		default:
			fmt.Fprintf(&text, " %v=%s", key, value)
		}
	}
	return text.String()
}
