package sequence_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/memsequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/require"
)

// cutOff runs a Do that finishes while the store can't be reached, and after its lease has ended.
func cutOff(t *testing.T, store *faultyStore, s *sequence.Stream[memsequence.Tx], id string) *sequence.LateCommitError {
	t.Helper()
	err := s.Do(t.Context(), sequence.Operation{ID: id, Duration: time.Minute}, func(ctx context.Context, n *sequence.Number[memsequence.Tx]) error {
		store.cut.Store(true)
		<-ctx.Done()
		return n.Commit(t.Context(), []byte("result of "+id), nil)
	})
	late := (*sequence.LateCommitError)(nil)
	require.ErrorAs(t, err, &late)
	require.ErrorIs(t, err, errNetwork, "it says why, too")
	require.Equal(t, sequence.SettledJournaled, late.Settled)
	return late
}

func TestTheJournalBringsBackWhatWasCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memsequence.New()}
		require.NoError(t, store.CreateStream(t.Context(), "s"))
		var rows []string
		open := func() (*sequence.Stream[memsequence.Tx], *sequence.Journal) {
			journal, err := sequence.OpenJournal(path)
			require.NoError(t, err)
			s, err := sequence.NewStream(store, "s", sequence.Options[memsequence.Tx]{Journal: journal, Write: func(_ context.Context, tx memsequence.Tx, e sequence.Entry) error {
				tx.OnCommit(func() { rows = append(rows, string(e.Payload)) })
				return nil
			}})
			require.NoError(t, err)
			return s, journal
		}
		s, journal := open()
		for _, op := range []string{"queued", "filled", "saved"} {
			store.cut.Store(false)
			cutOff(t, store, s, op)
		}
		require.Len(t, journal.Pending("s"), 3)
		_, err := s.Sync(t.Context())
		require.ErrorIs(t, err, errNetwork)
		require.Len(t, journal.Pending("s"), 3, "they are kept until the store has them")
		require.NoError(t, s.Close(t.Context()))
		require.NoError(t, journal.Close())

		// The process has restarted. Meanwhile a cleaner has made two gaps, one of which is sealed,
		// and the third recovery is under way.
		store.cut.Store(false)
		time.Sleep(time.Minute)
		for _, op := range []string{"queued", "filled", "saved"} {
			claim, ok, err := store.Claim(t.Context(), seqstore.ClaimRequest{Stream: "s", Owner: "cleaner", Duration: time.Minute})
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, op, claim.Op)
			if op != "saved" {
				_, err = store.Resolve(t.Context(), seqstore.ResolveRequest{Stream: "s", Seq: claim.Seq, Token: claim.Token, Outcome: sequence.OutcomeGap}, nil)
				require.NoError(t, err)
			}
		}
		_, err = store.Seal(t.Context(), "s", 1)
		require.NoError(t, err)
		s, journal = open()
		done, err := s.Sync(t.Context())
		require.NoError(t, err)
		got := map[string]sequence.Settlement{}
		for _, d := range done {
			got[d.Op] = d.Settlement
		}
		require.Equal(t, map[string]sequence.Settlement{
			"queued": sequence.SettledQueued, "filled": sequence.SettledCommitted, "saved": sequence.SettledSaved,
		}, got)
		require.Equal(t, []string{"result of filled"}, rows)
		require.Empty(t, journal.Pending("s"))
		again, err := s.Sync(t.Context())
		require.NoError(t, err)
		require.Empty(t, again)
		require.NoError(t, s.Close(t.Context()))
		require.NoError(t, journal.Close())
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Size(), "a journal with nothing left is empty")
	})
}

// journaled makes a journal with two results.
func journaled(t *testing.T) (path string, text []byte) {
	path = filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memsequence.New()}
		require.NoError(t, store.CreateStream(t.Context(), "s"))
		journal, err := sequence.OpenJournal(path)
		require.NoError(t, err)
		s, err := sequence.NewStream(store, "s", sequence.Options[memsequence.Tx]{Journal: journal})
		require.NoError(t, err)
		for _, id := range []string{"one", "two"} {
			store.cut.Store(false)
			cutOff(t, store, s, id)
		}
		require.NoError(t, s.Close(t.Context()))
		require.NoError(t, journal.Close())
	})
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return path, text
}

func TestATornRecordIsCutOff(t *testing.T) {
	path, text := journaled(t)
	for cut := len(text) - 1; cut > strings.Index(string(text), "\n")+1; cut -= 7 {
		require.NoError(t, os.WriteFile(path, text[:cut], 0o600))
		journal, err := sequence.OpenJournal(path)
		require.NoError(t, err)
		require.NoError(t, journal.Damaged())
		require.Len(t, journal.Pending("s"), 1)
		require.Empty(t, journal.Pending("another"))
		require.NoError(t, journal.Close())
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, int64(strings.Index(string(text), "\n")+1), info.Size(), "what follows begins a line of its own")
	}
}

// The last line is damaged, but a crash has not torn it: append had returned for this record.
func TestTrap_T202_ADamagedLastRecordIsReported(t *testing.T) {
	path, text := journaled(t)
	first := strings.Index(string(text), "\n") + 1
	for at := first; at < len(text); at++ {
		damaged := slices.Clone(text)
		damaged[at] ^= 1
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		journal, err := sequence.OpenJournal(path)
		require.NoError(t, err)
		pending := journal.Pending("s")
		if at == len(text)-1 { // the end of the line: the record is whole
			require.Len(t, pending, 2)
			require.NoError(t, journal.Damaged())
		} else {
			require.Len(t, pending, 1)
			lines := (*sequence.DamagedError)(nil)
			require.ErrorAs(t, journal.Damaged(), &lines, "byte %d", at)
			require.Equal(t, []int{2}, lines.Lines)
		}
		require.NoError(t, journal.Close())
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Len(t, kept, len(text), "it is kept for a person to look at")
	}
}

// If two processes overlap during a restart, the second can't open the file until the first has closed the
// file.
func TestTrap_T202_AJournalHasOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	journal, err := sequence.OpenJournal(path)
	require.NoError(t, err)
	_, err = sequence.OpenJournal(path)
	require.ErrorIs(t, err, sequence.ErrJournalInUse)
	require.NoError(t, os.Symlink(path, path+" too"))
	_, err = sequence.OpenJournal(path + " too")
	require.ErrorIs(t, err, sequence.ErrJournalInUse)
	require.NoError(t, journal.Close())
	journal, err = sequence.OpenJournal(path)
	require.NoError(t, err)
	require.NoError(t, journal.Close())
}

func TestADamagedRecordIsReported(t *testing.T) {
	path, text := journaled(t)
	text[20] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o600))
	journal, err := sequence.OpenJournal(path)
	require.NoError(t, err)
	damaged := (*sequence.DamagedError)(nil)
	require.ErrorAs(t, journal.Damaged(), &damaged)
	require.Equal(t, []int{1}, damaged.Lines)
	pending := journal.Pending("s")
	require.Len(t, pending, 1, "the others are still good")
	require.Equal(t, "result of two", string(pending[0].Payload))
	store := memsequence.New()
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	s, err := sequence.NewStream(store, "s", sequence.Options[memsequence.Tx]{Journal: journal})
	require.NoError(t, err)
	done, err := s.Sync(t.Context())
	require.ErrorAs(t, err, &damaged)
	require.Len(t, done, 1)
	require.Equal(t, sequence.SettledQueued, done[0].Settlement, "the store doesn't know the number")
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, journal.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NotZero(t, info.Size(), "the damaged line is kept")
	_, err = sequence.OpenJournal(t.TempDir())
	require.Error(t, err)
	bare, err := sequence.NewStream(store, "s", sequence.Options[memsequence.Tx]{})
	require.NoError(t, err)
	_, err = bare.Sync(t.Context())
	require.ErrorContains(t, err, "OpenJournal")
	require.NoError(t, bare.Close(t.Context()))
}

func TestAlertsHoldOverAWindow(t *testing.T) {
	now := time.Now()
	at := func(ago time.Duration, s sequence.Sample) sequence.Sample { s.At = now.Add(-ago); return s }
	names := func(samples ...sequence.Sample) (all []string) {
		for _, a := range (sequence.AlertRules{}).Check(now, samples) {
			require.NotContains(t, a.Text, "%!")
			all = append(all, string(a.Level)+" "+a.Name)
		}
		return all
	}
	quiet := at(30*time.Minute, sequence.Sample{Committed: 1000, Expired: 7})
	require.Empty(t, names())
	require.Empty(t, names(quiet))
	require.Empty(t, names(quiet, at(0, sequence.Sample{Committed: 1095, Expired: 12, ExpiredNow: 10, Gaps: 100, BarrierWait: 5 * time.Second})))
	require.Equal(t, []string{"warning expiry_rate"}, names(quiet, at(0, sequence.Sample{Committed: 1094, Expired: 13})))
	require.Empty(t, names(quiet, at(0, sequence.Sample{Committed: 1009, Expired: 17})), "too few for an alert")
	require.Empty(t, names(at(2*time.Hour, sequence.Sample{}), quiet, at(0, sequence.Sample{Committed: 1100, Expired: 8})), "the window begins later")
	require.Equal(t, []string{"warning expiry_rate"}, names(quiet, at(0, sequence.Sample{Committed: 30, Expired: 5})), "a counter that began anew")
	require.Equal(t, []string{"critical expired_now", "warning recovery_failures", "warning gaps", "warning barrier_wait"},
		names(quiet, at(0, sequence.Sample{Committed: 1000, Expired: 7, ExpiredNow: 11, RecoverySuccesses: 98, RecoveryFailures: 2, Gaps: 101, BarrierWait: 6 * time.Second})))
	require.Equal(t, 1.0, sequence.Efficiency(0, 0))
	require.Equal(t, .75, sequence.Efficiency(3, 1))
	require.False(t, errors.Is(sequence.ErrLate, sequence.ErrOpen))
}

// Lines of release 0.1.0: two results, one of which was settled. Later releases must still read these
// lines.
const goldenJournal = `f0acc08c {"v":1,"id":"orders/7/0","stream":"orders","seq":7,"op":"order-7","token":12,"payload":"cGFpZA=="}
52450793 {"v":1,"id":"orders/8/110","stream":"orders","seq":8,"op":"order-8","token":13,"payload":null}
9ade3f56 {"v":1,"id":"orders/7/0","seq":0,"op":"","token":0,"payload":null,"done":true}
`

func TestGoldenJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	require.NoError(t, os.WriteFile(path, []byte(goldenJournal), 0o600))
	journal, err := sequence.OpenJournal(path)
	require.NoError(t, err)
	require.NoError(t, journal.Damaged())
	require.Equal(t, []sequence.Unsettled{{Seq: 8, Op: "order-8", Token: 13}}, journal.Pending("orders"))
	require.NoError(t, journal.Close())
}

// A line of a later release is refused in any position, and the file is not changed.
func TestAJournalOfALaterReleaseIsRefused(t *testing.T) {
	const later = `{"v":2,"results":[]}`
	line := fmt.Sprintf("%08x %s\n", crc32.ChecksumIEEE([]byte(later)), later)
	for what, text := range map[string]string{"first": line + goldenJournal, "last": goldenJournal + line, "with a damaged end": goldenJournal + strings.TrimSuffix(line, "\n") + "\x00"} {
		path := filepath.Join(t.TempDir(), "journal")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := sequence.OpenJournal(path)
		require.ErrorIs(t, err, leasing.ErrNotSetUp, what)
		require.ErrorContains(t, err, "is of version 2", what)
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(kept), what)
	}
}
