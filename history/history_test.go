package history_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/history"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// writer is a Writer whose calls return scripted answers, or hang until hangs is closed.
type writer struct {
	answers []error
	hangs   chan struct{} // nil if calls do not hang
	calls   int
	written []abstractions.NamedEntry
}

func (w *writer) WriteHistory(_ context.Context, entries []abstractions.NamedEntry) error {
	if w.hangs != nil {
		<-w.hangs
	}
	if w.calls++; w.calls <= len(w.answers) && w.answers[w.calls-1] != nil {
		return w.answers[w.calls-1]
	}
	w.written = append(w.written, entries...)
	return nil
}

type panickingWriter struct{ *writer }

func (w panickingWriter) WriteHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	if w.calls++; w.calls == 1 {
		panic("a bug")
	}
	return w.writer.WriteHistory(ctx, entries)
}

func newRecorder(t *testing.T, w history.Writer, options history.Options) *history.Recorder {
	t.Helper()
	r, err := history.New(w, options)
	require.NoError(t, err)
	return r
}

func newManager(t *testing.T, provider leasing.Provider, owner string, observers ...leasing.Observer) *leasing.Manager {
	t.Helper()
	m, err := leasing.NewManager(provider, leasing.Options{Owner: owner, TTL: 10 * time.Second})
	require.NoError(t, err)
	for _, observer := range observers {
		m.Subscribe(observer)
	}
	return m
}

func acquiredEvent(token int64) leasing.Event {
	return leasing.Event{Kind: leasing.EventAcquired, Name: "n", Token: token, Time: time.Now()}
}

func tokens(entries []abstractions.NamedEntry) (all []int64) {
	for _, e := range entries {
		all = append(all, e.Token)
	}
	return all
}

// The lines of JSON show the holders and the breaks of some leases.
func TestLinesShowHoldersAndBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		r := newRecorder(t, history.JSONLines(&text), history.Options{})
		provider := memlease.New(memlease.Options{})
		holder, operator := newManager(t, provider, "w1", r.Observe), newManager(t, provider, "ada", r.Observe)

		released, err := holder.Acquire(t.Context(), "released")
		require.NoError(t, err)
		require.NoError(t, released.Release(t.Context()))
		broken, err := holder.Acquire(t.Context(), "broken")
		require.NoError(t, err)
		records, err := leasing.HeldBy(t.Context(), operator, "w1", "")
		require.NoError(t, err)
		_, err = leasing.ForceRelease(t.Context(), operator, records, leasing.BreakOptions{Reason: "stuck"})
		require.NoError(t, err)
		<-broken.Done()
		expired, err := holder.With(leasing.AcquireOptions{NoAutoRenew: true}).Acquire(t.Context(), "expired")
		require.NoError(t, err)
		<-expired.Done()

		require.NoError(t, errors.Join(holder.Close(t.Context()), operator.Close(t.Context()), r.Close(t.Context())))
		require.Zero(t, r.Dropped())
		events := map[string][]string{}
		for lines := json.NewDecoder(&text); ; {
			var e abstractions.NamedEntry
			if err := lines.Decode(&e); errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Positive(t, e.Token)
			require.False(t, e.Time.IsZero())
			events[e.Name] = append(events[e.Name], strings.TrimSpace(fmt.Sprintln(e.Kind, e.Owner, e.Actor, e.Reason)))
		}
		require.Equal(t, []string{"acquired w1", "released w1"}, trimmed(events["released"]))
		require.ElementsMatch(t, []string{"acquired w1", "broken ada stuck", "lost w1 ada broken: stuck"}, trimmed(events["broken"]))
		require.Equal(t, []string{"acquired w1", "lost w1 expired"}, trimmed(events["expired"]))
	})
}

func trimmed(lines []string) (all []string) {
	for _, line := range lines {
		all = append(all, strings.Join(strings.Fields(line), " "))
	}
	return all
}

// A writer that hangs and ignores its context blocks neither leases nor Close.
func TestAHangingWriterBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{hangs: make(chan struct{})}
		var log bytes.Buffer
		r := newRecorder(t, w, history.Options{Buffer: 10, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		m := newManager(t, memlease.New(memlease.Options{}), "w1", r.Observe)
		began := time.Now()
		for range 20 {
			l, err := m.Acquire(t.Context(), "n")
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context()))
		}
		require.NoError(t, m.Close(t.Context()))
		require.Zero(t, time.Since(began))
		require.EqualValues(t, 30, r.Dropped(), "of 40, with room for 10")
		require.ErrorContains(t, r.Close(t.Context()), "10 entries were not written")
		require.Equal(t, 5*time.Second, time.Since(began))
		require.EqualValues(t, 40, r.Dropped())
		require.Contains(t, log.String(), "dropped=40")
		close(w.hangs)
	})
}

// Entries whose write fails are retried, and stay in order. The failure is logged once.
func TestAFailingWriterIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		var log bytes.Buffer
		w := &writer{answers: []error{down, down, down}}
		r := newRecorder(t, w, history.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for token := range int64(1000) {
			r.Observe(acquiredEvent(token))
		}
		synctest.Wait()
		require.NoError(t, r.Close(t.Context()))
		require.Len(t, w.written, 1000)
		for i, token := range tokens(w.written) {
			require.EqualValues(t, i, token)
		}
		require.GreaterOrEqual(t, w.calls, 3+2, "in batches of 500 at most")
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		require.Zero(t, r.Dropped())
	})
}

// Entries that the writer refuses for good are dropped, and later entries are not.
func TestRefusedEntriesAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := &writer{answers: []error{leasing.ErrInvalid}}
		r := newRecorder(t, w, history.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r.Observe(acquiredEvent(1))
		synctest.Wait()
		r.Observe(acquiredEvent(2))
		require.NoError(t, r.Close(t.Context()))
		require.Equal(t, []int64{2}, tokens(w.written))
		require.EqualValues(t, 1, r.Dropped())
		require.Contains(t, log.String(), "dropped=1")
	})
}

func TestAPanicOfTheWriterIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := panickingWriter{&writer{}}
		r := newRecorder(t, w, history.Options{})
		r.Observe(acquiredEvent(1))
		require.NoError(t, r.Close(t.Context()))
		require.Equal(t, []int64{1}, tokens(w.written))
	})
}

// Renewals are recorded only with the option Renewals, failures are not recorded, and events that
// the manager dropped are counted.
func TestWhichEventsAreHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for renewals, want := range map[bool][]int64{false: {1}, true: {1, 2}} {
			w := &writer{}
			r := newRecorder(t, w, history.Options{Renewals: renewals})
			for _, e := range []leasing.Event{
				acquiredEvent(1), {Kind: leasing.EventRenewed, Token: 2}, {Kind: leasing.EventRenewalFailed, Token: 3}, {Kind: leasing.EventAcquireFailed},
				{Kind: leasing.EventHandedOver, Token: 4}, {Kind: leasing.EventDropped, Coalesced: 7}, {Kind: "new in a later version"},
			} {
				r.Observe(e)
			}
			require.NoError(t, r.Close(t.Context()))
			require.Equal(t, want, tokens(w.written))
			require.EqualValues(t, 7, r.Dropped())
			r.Observe(acquiredEvent(5))
			require.EqualValues(t, 8, r.Dropped(), "after Close")
			require.NoError(t, r.Close(t.Context()), "again")
		}
	})
}

// The text of an error becomes text that every database accepts.
func TestReasonsAreText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{}
		r := newRecorder(t, w, history.Options{})
		r.Observe(leasing.Event{Kind: leasing.EventReleased, Err: errors.New("no\x00 \xff")})
		require.NoError(t, r.Close(t.Context()))
		require.Equal(t, "the backend has not confirmed the release: no\uFFFD \uFFFD", w.written[0].Reason)
	})
}

func TestObserveIsConcurrentSafe(t *testing.T) {
	w := &writer{}
	r := newRecorder(t, w, history.Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for token := range int64(500) {
				r.Observe(acquiredEvent(token))
			}
		})
	}
	all.Wait()
	require.NoError(t, r.Close(t.Context()))
	require.Len(t, w.written, 4000)
}

// shortWriter writes only a part of the data in its first Write.
type shortWriter struct {
	bytes.Buffer
	part int
}

func (w *shortWriter) Write(p []byte) (int, error) {
	if n := w.part; n >= 0 {
		w.part = -1
		n, _ = w.Buffer.Write(p[:n])
		return n, errors.New("no space")
	}
	return w.Buffer.Write(p)
}

// A torn Write damages exactly one line.
func TestATornLineHarmsNoOther(t *testing.T) {
	entries := []abstractions.NamedEntry{{Name: "n"}, {Name: "m"}}
	whole, err := json.Marshal(entries[0])
	require.NoError(t, err)
	for _, part := range []int{0, 5, len(whole), len(whole) + 1, len(whole) + 5} {
		w := &shortWriter{part: part}
		lines := history.JSONLines(w)
		require.Error(t, lines.WriteHistory(t.Context(), entries))
		require.NoError(t, lines.WriteHistory(t.Context(), entries))
		require.NoError(t, lines.WriteHistory(t.Context(), entries))
		var names []string
		for line := range strings.SplitSeq(w.String(), "\n") {
			var e abstractions.NamedEntry
			if json.Unmarshal([]byte(line), &e) == nil {
				names = append(names, e.Name)
			}
		}
		require.Equal(t, []string{"n", "m", "n", "m"}, names[len(names)-4:], "torn at %d", part)
	}
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	_, err := history.New(nil, history.Options{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	_, err = history.New(&writer{}, history.Options{Buffer: -1})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	for _, year := range []int{-1, 10_000} {
		entry := abstractions.NamedEntry{HistoryEntry: abstractions.HistoryEntry{Time: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}}
		require.ErrorIs(t, history.JSONLines(io.Discard).WriteHistory(t.Context(), []abstractions.NamedEntry{entry}), leasing.ErrInvalid)
	}
}
