package providerkit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing/abstractions"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// held returns the record of a lease that claim "mine" holds for another minute.
func held() Record {
	return Record{Name: "n", Token: 7, ID: "mine", Owner: "me", TTL: time.Minute, AcquiredAt: noon.Add(-time.Hour), Now: noon, Left: time.Minute}
}

func acquire(id string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: "n", ID: id, Owner: "owner of " + id, TTL: ttl}
}

func lostBecause(t testing.TB, err error, reason abstractions.LostReason) {
	t.Helper()
	var lost *abstractions.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, reason, lost.Reason)
}

func TestAcquireTakesAFreeName(t *testing.T) {
	metadata := map[string]string{"a": "b"}
	r := Record{Name: "n", Now: noon}
	req := acquire("mine", time.Minute)
	req.Metadata = metadata
	c := r.Acquire(req)
	require.NoError(t, c.Err)
	require.True(t, c.Write && c.Deadline)
	require.Empty(t, c.Expired)
	require.Equal(t, Note{Time: noon, Kind: abstractions.HistoryAcquired, ID: "mine", Owner: "owner of mine", Token: noon.UnixMicro()}, c.Note)
	require.Equal(t, abstractions.Grant{Name: "n", ID: "mine", Token: noon.UnixMicro(), TTL: time.Minute}, r.Grant(time.Minute))
	metadata["a"] = "changed"
	shown := r.Show()
	require.Equal(t, abstractions.Record{
		Name: "n", Held: true, Fingerprint: abstractions.FingerprintOf("mine"), Owner: "owner of mine", Token: noon.UnixMicro(), TTL: time.Minute,
		Metadata: map[string]string{"a": "b"}, AcquiredAt: noon, ExpiresAt: noon.Add(time.Minute), Now: noon,
	}, shown)
	shown.Metadata["a"] = "changed"
	require.Equal(t, "b", r.Metadata["a"], "T86: what is handed out is a copy")
}

func TestTokensOfANewHolder(t *testing.T) {
	for _, test := range []struct {
		name          string
		stored, floor int64
		now           time.Time
		want          int64
	}{
		{"by the clock", 7, 0, noon, noon.UnixMicro()},
		{"a stored one from the future", noon.UnixMicro() + 5, 0, noon, noon.UnixMicro() + 6},
		{"a floor from the future", 7, noon.UnixMicro() + 5, noon, noon.UnixMicro() + 6},
		{"no clock", 7, 0, time.Time{}, 8},
		{"no clock, and a floor", 0, 41, time.Time{}, 42},
		{"the last there is", abstractions.MaxToken - 1, 0, noon, abstractions.MaxToken},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Record{Name: "n", Token: test.stored, Floor: test.floor, Now: test.now}
			require.NoError(t, r.Acquire(acquire("mine", time.Minute)).Err)
			require.Equal(t, test.want, r.Token)
		})
	}
	r := Record{Name: "n", Token: abstractions.MaxToken, Now: noon}
	before := r
	c := r.Acquire(acquire("mine", time.Minute))
	require.ErrorIs(t, c.Err, abstractions.ErrNotSetUp, "asking again does not help")
	require.False(t, c.Write)
	require.Equal(t, before, r)
}

func TestANameThatNobodyHasIsFree(t *testing.T) {
	r := Record{Name: "n", Now: noon, Left: time.Minute}
	require.False(t, r.Held())
	require.False(t, r.Show().Held)
	require.NoError(t, r.Acquire(acquire("mine", time.Minute)).Err)
}

func TestAcquireRefuses(t *testing.T) {
	r := held()
	c := r.Acquire(acquire("theirs", time.Minute))
	var refused *abstractions.HeldError
	require.ErrorAs(t, c.Err, &refused)
	require.Equal(t, r.Show(), refused.Holder)
	require.False(t, c.Write)
	require.Equal(t, held(), r)
	require.Zero(t, refused.RetryAfter, "the holder's time says it")

	r.Now = time.Time{}
	require.ErrorAs(t, r.Acquire(acquire("theirs", time.Minute)).Err, &refused)
	require.Equal(t, time.Minute, refused.RetryAfter, "where there is no clock")
}

// T13: a repeated acquire grants the TTL from now on. Since it may be a late copy, it
// never shortens the lease, and changes nothing that a renewal may have changed since.
func TestTrap_T13_RepeatedAcquire(t *testing.T) {
	r := held()
	r.Metadata = map[string]string{"renewed": "yes"}
	r.Left = time.Second
	req := acquire("mine", time.Minute)
	req.Metadata = map[string]string{"renewed": "no"}
	c := r.Acquire(req)
	require.NoError(t, c.Err)
	require.True(t, c.Write && c.Deadline)
	require.Equal(t, time.Minute, r.Left)
	require.EqualValues(t, 7, r.Token)
	require.Equal(t, map[string]string{"renewed": "yes"}, r.Metadata)
	require.Empty(t, c.Note)

	for _, left := range []time.Duration{time.Minute, time.Hour, abstractions.Infinite} {
		r := held()
		r.TTL, r.Left = left, left
		before := r
		require.Equal(t, Change{}, r.Acquire(acquire("mine", time.Minute)), "left: %v", left)
		require.Equal(t, before, r)
	}
}

// A lease of a backend whose time is not exact may have less time left than it
// seems, so a repetition prolongs it to at least the time that seemed to be left.
func TestRepeatedAcquireWhereTheTimeIsNotExact(t *testing.T) {
	for _, test := range []struct{ ttl, left, asked, want time.Duration }{
		{time.Minute, 62 * time.Second, time.Minute, time.Minute},
		{time.Minute, 50 * time.Second, 48 * time.Second, 50 * time.Second},
		{time.Minute, 50 * time.Second, 47 * time.Second, 0},
		{abstractions.Infinite, abstractions.Infinite, time.Minute, 0},
	} {
		r := held()
		r.TTL, r.Left, r.Slack = test.ttl, test.left, 3*time.Second
		c := r.Acquire(acquire("mine", test.asked))
		require.NoError(t, c.Err)
		require.Equal(t, test.want != 0, c.Deadline)
		if c.Deadline {
			require.Equal(t, test.want, r.Left)
		}
	}
}

func TestAcquireFindsALeaseThatRanOut(t *testing.T) {
	for _, id := range []string{"theirs", "mine"} {
		r := held()
		r.Left = -2 * time.Second
		c := r.Acquire(acquire(id, time.Hour))
		require.NoError(t, c.Err)
		require.Equal(t, Note{Time: noon.Add(-2 * time.Second), Kind: abstractions.HistoryExpired, ID: "mine", Owner: "me", Token: 7}, c.Expired)
		require.Equal(t, abstractions.HistoryAcquired, c.Note.Kind)
		require.Equal(t, noon.UnixMicro(), r.Token)
		require.Equal(t, noon, r.AcquiredAt)
		known, _ := r.Ended.Find("mine")
		require.False(t, known, "it was not given up")
	}
}

func TestRenew(t *testing.T) {
	for name, metadata := range map[string]map[string]string{"as it is": nil, "none": {}, "another": {"c": "d"}} {
		t.Run("metadata "+name, func(t *testing.T) {
			r := held()
			r.Metadata = map[string]string{"a": "b"}
			c := r.Renew(abstractions.RenewRequest{Name: "n", ID: "mine", Token: 7, TTL: time.Second, Metadata: metadata})
			require.NoError(t, c.Err)
			require.True(t, c.Write && c.Deadline)
			require.Equal(t, abstractions.HistoryRenewed, c.Note.Kind)
			require.Equal(t, time.Second, r.Left, "T07: the TTL that is asked for, from now")
			require.Equal(t, time.Second, r.TTL)
			require.EqualValues(t, 7, r.Token)
			switch {
			case metadata == nil:
				require.Equal(t, map[string]string{"a": "b"}, r.Metadata)
			default:
				require.True(t, maps.Equal(metadata, r.Metadata))
				metadata["x"] = "y"
				require.NotContains(t, r.Metadata, "x", "T86: a copy")
			}
		})
	}
}

func TestWhyAClaimIsLost(t *testing.T) {
	released := Ended{{ID: "mine"}}
	broken := Ended{{ID: "mine", Broken: true}}
	for _, test := range []struct {
		name   string
		record Record
		reason abstractions.LostReason
	}{
		{"it is ours", held(), ""},
		{"it ran out", Record{ID: "mine", Token: 7}, abstractions.LostExpired},
		{"no record", Record{}, abstractions.LostGone},
		{"released", Record{Token: 7, Ended: released}, abstractions.LostGone},
		{"released, and taken since", Record{ID: "theirs", Token: 9, Ended: released, Left: 1}, abstractions.LostGone},
		{"broken", Record{ID: "mine", Token: 7, Left: 1, Ended: broken, Breaking: true}, abstractions.LostBroken},
		{"broken, and the ID forgotten", Record{ID: "mine", Token: 7, Left: 1, Breaking: true}, abstractions.LostBroken},
		{"broken and free", Record{Token: 7, Ended: broken}, abstractions.LostBroken},
		{"taken", Record{ID: "theirs", Token: 9, Left: 1}, abstractions.LostTaken},
		{"taken and left since", Record{Token: 9}, abstractions.LostTaken},
		{"taken under our ID after it ran out", Record{ID: "mine", Token: 9, Left: 1}, abstractions.LostTaken},
		{"T84: a token that is not the claim's", Record{ID: "mine", Token: 5, Left: 1}, abstractions.LostGone},
		{"the backend went back in time", Record{ID: "theirs", Token: 5, Left: 1}, abstractions.LostGone},
		{"the backend went back in time, to a free name", Record{Token: 7}, abstractions.LostGone},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, before := test.record, test.record
			c := r.Renew(abstractions.RenewRequest{Name: "n", ID: "mine", Token: 7, TTL: time.Minute})
			if test.reason == "" {
				require.NoError(t, c.Err)
				return
			}
			lostBecause(t, c.Err, test.reason)
			require.False(t, c.Write)
			require.Equal(t, before, r)
		})
	}
}

func TestRelease(t *testing.T) {
	r := held()
	c := r.Release(abstractions.ReleaseRequest{Name: "n", ID: "mine", Token: 7})
	require.True(t, c.Write && c.Deadline && c.Wake)
	require.Equal(t, abstractions.HistoryReleased, c.Note.Kind)
	require.Equal(t, "mine", c.Note.ID)
	require.Equal(t, abstractions.Record{Name: "n", Token: 7, Now: noon}, r.Show())
	require.ErrorIs(t, r.Acquire(acquire("mine", time.Minute)).Err, abstractions.ErrReleased)
	require.Equal(t, Change{}, r.Release(abstractions.ReleaseRequest{Name: "n", ID: "mine"}), "a second one writes nothing")

	r = held()
	r.Left = -time.Second
	c = r.Release(abstractions.ReleaseRequest{Name: "n", ID: "mine"})
	require.True(t, c.Write)
	require.False(t, c.Wake, "the name was free")
	require.Equal(t, abstractions.HistoryExpired, c.Expired.Kind)
	require.Empty(t, c.Note)
}

// T26: after a release by another ID, that ID is refused, and the holder is not affected.
func TestTrap_T26_ReleaseByAnotherID(t *testing.T) {
	r, want := held(), held().show()
	c := r.Release(abstractions.ReleaseRequest{Name: "n", ID: "theirs"})
	require.True(t, c.Write)
	require.False(t, c.Deadline || c.Wake)
	require.Empty(t, c.Note)
	require.Equal(t, want, r.Show())
	require.ErrorIs(t, r.Acquire(acquire("theirs", time.Minute)).Err, abstractions.ErrReleased)
}

func (r Record) show() abstractions.Record { return r.Show() }

func TestBreak(t *testing.T) {
	who := abstractions.BreakRequest{Name: "n", Actor: "anna", Reason: "stuck"}
	t.Run("runs out", func(t *testing.T) {
		r := held()
		result, c := r.Break(who)
		require.NoError(t, c.Err)
		require.Equal(t, abstractions.BreakResult{WasHeld: true, Token: 7, Remaining: time.Minute}, result)
		require.True(t, c.Write)
		require.False(t, c.Deadline, "it ends when it would have")
		require.False(t, c.Wake, "the name is not free")
		require.Equal(t, Note{Time: noon, Kind: abstractions.HistoryBroken, ID: "mine", Owner: "me", Token: 7, Actor: "anna", Reason: "stuck"}, c.Note)
		shown := r.Show()
		require.True(t, shown.Breaking)
		require.Equal(t, "anna", shown.BrokenBy)
		require.Equal(t, "stuck", shown.BreakReason)
		require.ErrorIs(t, r.Acquire(acquire("mine", time.Hour)).Err, abstractions.ErrReleased)

		again, c := r.Break(abstractions.BreakRequest{Name: "n", Actor: "bob"})
		require.Equal(t, result, again)
		require.Equal(t, Change{}, c, "it says who was first")

		r.Left = 0
		c = r.Acquire(acquire("theirs", time.Minute))
		require.NoError(t, c.Err)
		require.Empty(t, c.Expired, "that it was broken is in the history")
		require.Empty(t, r.Show().BrokenBy)
	})
	t.Run("at once", func(t *testing.T) {
		for _, breaking := range []bool{false, true} {
			r := held()
			if breaking {
				r.Break(who)
			}
			now := who
			now.Immediate = true
			result, c := r.Break(now)
			require.Equal(t, abstractions.BreakResult{WasHeld: true, Token: 7}, result)
			require.True(t, c.Write && c.Deadline && c.Wake)
			require.Equal(t, "anna", c.Note.Actor)
			require.Equal(t, abstractions.Record{Name: "n", Token: 7, Now: noon}, r.Show(), "T21: the token is kept")
			lostBecause(t, r.Renew(abstractions.RenewRequest{Name: "n", ID: "mine", Token: 7, TTL: time.Minute}).Err, abstractions.LostBroken)
		}
	})
	t.Run("infinite", func(t *testing.T) {
		for grace, want := range map[time.Duration]time.Duration{0: time.Millisecond, time.Second: time.Second} {
			r := held()
			r.TTL, r.Left = abstractions.Infinite, abstractions.Infinite
			infinite := who
			infinite.Grace = grace
			result, c := r.Break(infinite)
			require.Equal(t, want, result.Remaining)
			require.Equal(t, want, r.Left)
			require.True(t, c.Write && c.Deadline && c.Wake, "who waits learns when")
		}
	})
	t.Run("nobody", func(t *testing.T) {
		r := held()
		r.Left = 0
		result, c := r.Break(who)
		require.Equal(t, abstractions.BreakResult{Token: 7}, result)
		require.Equal(t, Change{}, c)
	})
	t.Run("T63: another lease than is meant", func(t *testing.T) {
		r := held()
		for _, token := range []int64{6, 8} {
			stale := who
			stale.IfToken, stale.Immediate = token, true
			_, c := r.Break(stale)
			require.ErrorIs(t, c.Err, abstractions.ErrStale)
			require.False(t, c.Write)
			require.Equal(t, held(), r)
		}
		meant := who
		meant.IfToken = 7
		result, _ := r.Break(meant)
		require.True(t, result.WasHeld)
	})
	t.Run("a broken ID stays refused after it ran out", func(t *testing.T) {
		r := held()
		r.Break(who)
		for i := range EndedMost {
			r.Release(abstractions.ReleaseRequest{Name: "n", ID: fmt.Sprint("other-", i)})
		}
		require.ErrorIs(t, r.Acquire(acquire("mine", time.Hour)).Err, abstractions.ErrReleased)
		r.Left = 0
		require.NoError(t, r.Acquire(acquire("theirs", time.Hour)).Err)
		require.ErrorIs(t, r.Acquire(acquire("mine", time.Hour)).Err, abstractions.ErrReleased)
	})
}

// A lease can't have more time left than its TTL, unless the clock went back.
func TestClockThatWentBackKeepsNothingForEver(t *testing.T) {
	r := held()
	r.SetLeft(time.Hour)
	require.Equal(t, time.Minute, r.Left)
	c := r.Acquire(acquire("theirs", time.Second))
	var refused *abstractions.HeldError
	require.ErrorAs(t, c.Err, &refused)
	left, known := refused.Holder.Remaining()
	require.True(t, known)
	require.Equal(t, time.Minute, left)
	require.True(t, c.Write && c.Deadline, "the deadline is written down by the clock of now")
	require.Equal(t, time.Minute, r.Left)
	r.SetLeft(time.Minute + time.Microsecond)
	require.Equal(t, time.Minute, r.Left)
	require.False(t, r.Acquire(acquire("theirs", time.Second)).Write, "to be refused changes nothing, and deadlines are rounded up")
	r.Unsettled = true
	r.SetLeft(time.Second)
	require.True(t, r.Acquire(acquire("theirs", time.Second)).Write, "of an earlier boot")
}

// T54: a record is kept until its token is in the past, whatever its other fields say.
func TestTrap_T54_ARecordWithATokenAheadOfTheClockIsKept(t *testing.T) {
	idle := func(since time.Duration) Record {
		return Record{Name: "n", Token: 7, IdleSince: noon.Add(-since), Now: noon}
	}
	for _, test := range []struct {
		name   string
		record Record
		want   bool
	}{
		{"idle", idle(time.Hour), true},
		{"not for long enough", idle(time.Hour - 1), false},
		{"its token is not in the past", Record{Token: noon.UnixMicro(), Now: noon}, false},
		{"held", held(), false},
		{"ran out", Record{ID: "mine", Token: 7, Now: noon, Left: -time.Hour}, true},
		{"ran out just now", Record{ID: "mine", Token: 7, Now: noon, Left: -time.Hour + 1}, false},
		{"ran out, and an ID ended since", Record{ID: "mine", Token: 7, Now: noon, Left: -time.Hour, IdleSince: noon.Add(-time.Minute)}, false},
		{"no clock", Record{Token: 7, IdleSince: noon.Add(-time.Hour)}, false},
	} {
		require.Equal(t, test.want, test.record.Forgettable(time.Hour), test.name)
		require.False(t, test.record.Forgettable(abstractions.Infinite), test.name)
	}
}

// ruleModel applies requests to a record and keeps its own account of the results.
type ruleModel struct {
	r       Record
	expires time.Duration // of the lease, since noon; may be Infinite
	now     time.Duration
	token   int64 // the highest
	claims  map[string]int64
	ended   map[string]time.Duration
	order   []string // of ended

	// breaking is the ID of a broken claim whose lease has not run out. If the ID is forgotten before the
	// lease ends, it is recorded a second time at the end.
	breaking string
	known    Ended // after the latest request
}

func (w *ruleModel) read() {
	w.r.Now, w.r.Left = noon.Add(w.now), w.expires
	if w.expires != abstractions.Infinite {
		w.r.Left = w.expires - w.now
	}
}

func (w *ruleModel) wrote(c Change) {
	if c.Deadline {
		w.expires = w.r.Left
		if w.r.Left != abstractions.Infinite {
			w.expires += w.now
		}
	}
	if broken := w.breaking; broken != "" && w.r.ID != broken {
		w.end(broken, Record{Ended: w.known})
		w.breaking = ""
	}
	if w.r.Breaking {
		w.breaking = w.r.ID
	}
	w.known = w.r.Ended
}

// end records that an ID ended. An ID that is remembered keeps its time.
func (w *ruleModel) end(id string, before Record) {
	if known, _ := before.Ended.Find(id); known {
		return
	}
	w.order = append(slices.DeleteFunc(w.order, func(other string) bool { return other == id }), id)
	w.ended[id] = w.now
}

// mustRefuse reports whether an ID that ended must still be remembered.
func (w *ruleModel) mustRefuse(id string) bool {
	at, ended := w.ended[id]
	younger := len(w.order) - 1 - slices.Index(w.order, id)
	return ended && (younger < EndedLeast || younger < EndedMost && w.now-at < EndedFor)
}

func TestTheLifeOfALeaseByChance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &ruleModel{claims: map[string]int64{}, ended: map[string]time.Duration{}}
		w.r.Name = "n"
		ids := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		ttls := rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, abstractions.Infinite})
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				w.now += rapid.SampledFrom([]time.Duration{1, time.Second, 10 * time.Second, time.Minute}).Draw(t, "d")
			},
			"acquire": func(t *rapid.T) {
				w.read()
				before, req := w.r, acquire(ids.Draw(t, "id"), ttls.Draw(t, "ttl"))
				c := w.r.Acquire(req)
				w.wrote(c)
				switch {
				case w.mustRefuse(req.ID):
					require.ErrorIs(t, c.Err, abstractions.ErrReleased)
				case errors.Is(c.Err, abstractions.ErrReleased):
					require.Contains(t, w.ended, req.ID)
				case before.Held() && before.ID != req.ID:
					require.ErrorIs(t, c.Err, abstractions.ErrHeld)
				case before.Held():
					require.NoError(t, c.Err)
					require.Equal(t, before.Token, w.r.Token)
					require.Equal(t, max(before.Left, req.TTL), w.r.Left)
				default:
					require.NoError(t, c.Err)
					require.Greater(t, w.r.Token, w.token)
					w.token = w.r.Token
					w.claims[req.ID] = w.r.Token
				}
			},
			"renew": func(t *rapid.T) {
				w.read()
				before, id := w.r, ids.Draw(t, "id")
				token := w.claims[id] + rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(t, "wrong")
				c := w.r.Renew(abstractions.RenewRequest{Name: "n", ID: id, Token: token, TTL: ttls.Draw(t, "ttl")})
				w.wrote(c)
				require.Equal(t, before.Held() && !before.Breaking && before.ID == id && before.Token == token, c.Err == nil)
				require.Equal(t, before.Token, w.r.Token)
			},
			"release": func(t *rapid.T) {
				w.read()
				before, id := w.r, ids.Draw(t, "id")
				c := w.r.Release(abstractions.ReleaseRequest{Name: "n", ID: id})
				w.wrote(c)
				require.NoError(t, c.Err)
				w.end(id, before)
				require.Equal(t, before.Held() && before.ID != id, w.r.Held())
				require.Equal(t, before.Token, w.r.Token)
			},
			"break": func(t *rapid.T) {
				w.read()
				before := w.r
				_, c := w.r.Break(abstractions.BreakRequest{Name: "n", Immediate: rapid.Bool().Draw(t, "immediate")})
				w.wrote(c)
				if before.Held() {
					w.end(before.ID, before)
					require.Equal(t, w.r.ID != "", w.r.Breaking)
				}
				require.Equal(t, before.Token, w.r.Token)
			},
			"many come and go": func(t *rapid.T) {
				w.read()
				for i := range rapid.IntRange(1, EndedMost).Draw(t, "n") {
					id, before := fmt.Sprint("x-", len(w.order), "-", i), w.r
					w.wrote(w.r.Release(abstractions.ReleaseRequest{Name: "n", ID: id}))
					w.end(id, before)
				}
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, len(w.r.Ended), EndedMost)
				require.Equal(t, w.r.Ended.String(), ParseEnded(w.r.Ended.String()).String())
			},
		})
	})
}
