package main

import (
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

// on is a play whose three workers run, without their processes.
func on(t *testing.T) *play {
	t.Helper()
	c := newCrew(nil, nil)
	for _, name := range []string{"w1", "w2", "w3"} {
		c.all[name], c.running[name] = &exec.Cmd{}, true
	}
	p := &play{
		crew: c, out: io.Discard, ttl: 3 * time.Second, backend: leasing.Capabilities{RemainingKnown: true, Lateness: leasing.Lateness{Fixed: time.Second}},
		items: map[int64]int{}, shown: map[string]map[int64]bool{},
	}
	p.Name, p.Ledger = "n", filepath.Join(t.TempDir(), "ledger.db")
	return p
}

func has(worker string, token int64) report {
	return report{Kind: acquired, Worker: worker, Token: token}
}

// shows reports that a worker shows another as the holder.
func shows(worker, owner string, token int64) report {
	left := 4 * time.Second
	return report{Kind: waiting, Worker: worker, Holder: &holder{Owner: owner, Token: token, Left: &left, Metadata: map[string]string{"pid": "1"}}}
}

func TestJudgeWantsTokensThatRise(t *testing.T) {
	for _, token := range []int64{5, 4} {
		p := on(t)
		require.NoError(t, p.see(has("w1", 5)))
		require.ErrorContains(t, p.see(has("w2", token)), "not above")
	}
}

func TestJudgeWantsLosersToShowTheRightHolder(t *testing.T) {
	p := on(t)
	require.NoError(t, p.see(has("w1", 5)))
	require.False(t, p.othersShow())
	require.NoError(t, p.see(shows("w2", "w1", 5)))
	require.False(t, p.othersShow(), "w3 has not")
	require.NoError(t, p.see(shows("w3", "w1", 5)))
	require.True(t, p.othersShow())
	require.NoError(t, p.see(has("w2", 6)))
	require.NoError(t, p.see(shows("w1", "w2", 6)))
	require.False(t, p.othersShow(), "w3 has shown another holder")

	wrong := shows("w3", "w1", 6)
	require.ErrorContains(t, p.see(wrong), "w3 shows")
	wrong = shows("w3", "w2", 6)
	wrong.Holder.Metadata = nil
	require.ErrorContains(t, p.see(wrong), "w3 shows")
	wrong = shows("w3", "w2", 6)
	wrong.Holder.Left = nil
	require.ErrorContains(t, p.see(wrong), "does not tell", "it does")
	long := 5 * time.Second
	wrong.Holder.Left = &long
	require.ErrorContains(t, p.see(wrong), "for 5.0s")
	p.backend.RemainingKnown = false
	require.NoError(t, p.see(wrong))
}

func TestJudgeWantsWorkersToEndInOrder(t *testing.T) {
	p := on(t)
	p.killed = "w1"
	require.NoError(t, p.see(report{Kind: exited, Worker: "w1", Text: "signal: killed"}))
	require.NoError(t, p.see(report{Kind: exited, Worker: "w2", Text: "exit status 0"}))
	require.ErrorContains(t, p.see(report{Kind: exited, Worker: "w3", Text: "exit status 1"}), "w3 has ended: exit status 1")
	require.ErrorContains(t, p.see(report{Kind: exited, Worker: "w1", Text: "exit status 0"}), "w1 has ended: exit status 0", "it had the time to release")
}

func TestJudgeReadsTheLedger(t *testing.T) {
	p := on(t)
	for _, r := range []report{has("w1", 5), has("w2", 6)} {
		require.NoError(t, p.see(r))
	}
	book, err := openLedger(t.Context(), p.Ledger)
	require.NoError(t, err)
	defer book.close()
	put := func(number, token int64, worker string) {
		_, err := book.db.ExecContext(t.Context(), "INSERT INTO items (name, number, token, worker) VALUES ('n', ?, ?, ?)", number, token, worker)
		require.NoError(t, err)
	}
	put(1, 5, "w1")
	put(2, 6, "w2")
	rows, err := p.rows(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, rows)
	for _, wrong := range []row{{3, 5, "w1"}, {4, 6, "w2"}, {3, 6, "w1"}, {3, 7, "w3"}} {
		put(wrong.number, wrong.token, wrong.worker)
		_, err := p.rows(t.Context())
		require.ErrorContains(t, err, "out of order", wrong)
		_, err = book.db.ExecContext(t.Context(), "DELETE FROM items WHERE number > 2")
		require.NoError(t, err)
	}
}
