package redislease

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

// The record of a name is deleted, or forgotten, and the queue stays. The next release
// wakes the waiter.
func TestTrap_T32_AQueueOutlivesItsName(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "a", time.Minute)
	waiter, _ := b.process()
	s := b.join(waiter, "n", "w")
	drain(s.wakeups)
	b.forget("n")
	next := b.Take("n", "b", time.Minute)
	b.release("n", "b")
	g := s.acquireServed()
	require.Greater(t, g.Token, next.Token)
}

// drain drops a pending wake-up, for example the one that the start of the subscription sends.
func drain(wakeups <-chan struct{}) {
	select {
	case <-wakeups:
	default:
	}
}

// A server that has just booted may not have set its clock yet. Its time in
// milliseconds has fewer digits, so it can't be compared with stored times.
func TestTrap_T54_AServerWithoutATimeGrantsNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	k := b.keys("n")
	const time1970 = "{'1000', '5'}"
	text := strings.Replace(script.Acquire.Text, "redis.pcall('TIME')", time1970, 1)
	require.Contains(t, text, time1970)
	err := b.admin.Eval(t.Context(), text, []string{k.Name, k.Queue}, "0", "", "60000", "120000", script.Digest("a"), "a", "\nme\n", "").Err()
	require.ErrorIs(t, failure.Of(err), abstractions.ErrThrottled)
	require.False(t, b.exists(k.Name))
}

// A process without permission to read the queue ends a lease. The next release, by a
// process with that permission, wakes the waiters.
func TestTrap_T32_WhoMayNotWakeLeavesItToOthers(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"+zpopmin", "+zrange"} {
		t.Run(missing, func(t *testing.T) {
			user := strings.ReplaceAll(ACLRules, missing+" ", "")
			b := newBed(t, redistest.Options{Users: []string{"app on >secret " + user, "default on nopass ~* &* +@all"}})
			p := openTest(t, Options{URL: appURL(b.server)})
			_, err := p.Acquire(t.Context(), redistest.AcquireRequest("n", "a", time.Minute))
			require.NoError(t, err)
			waiter, _ := b.process()
			claims := []*waitingClaim{b.join(waiter, "n", "w1"), b.join(waiter, "n", "w2")}
			for _, s := range claims {
				drain(s.wakeups)
			}
			require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}))
			next, last := "other", claims[0]
			if missing == "+zrange" {
				next, last = "w1", claims[1]
			}
			b.Take("n", next, time.Minute)
			b.release("n", next)
			last.acquireServed()
		})
	}
}

func TestATokenThatNobodyHasIsLost(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	g := b.Take("n", "a", time.Minute)
	for _, token := range []int64{-1, 0, 1, g.Token - 1} {
		g.Token = token
		redistest.RequireLost(t, b.renew(g, time.Minute), abstractions.LostTaken)
	}
}

// The most common cases have their own code, which writes the same record as the rest of the script.
func TestTheQuickPathsWriteWhatTheOthersDo(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	now := time.UnixMicro(b.clock())
	naming := script.Naming{Prefix: "leasing", Retention: time.Hour}
	k := naming.Keys("n")
	claim := script.Claim{ID: "01JDAX3K1Z4GQ8W9T6V2M5N7PB", TTL: time.Minute, Content: script.Content{Owner: "me", Metadata: `{"k":"v"}`}}
	renewal := func(id string, token int64, ttl time.Duration) script.Operation {
		return naming.Renew(new(strings.Builder), &abstractions.RenewRequest{Name: "n", ID: id, Token: token, TTL: ttl})
	}
	const token = 1795347159570123
	operations := map[string]script.Operation{
		"acquire": k.Acquire(claim), "release": k.Release(claim.ID), "renew": renewal(claim.ID, token, time.Minute),
		"renew for longer": renewal(claim.ID, token, time.Hour), "renew with another token": renewal(claim.ID, token+1, time.Minute),
		"release of its beginning": k.Release(claim.ID[:10]), "release of nothing": k.Release(""), "release of another": k.Release("b"),
	}
	fastPaths := map[string]bool{}
	for _, name := range []string{"free", "new", "held", "lapsed", "broken", "reserved", "another's", "the future's", "theirs"} {
		for ended := range 10 {
			for _, flag := range []string{"-", "w"} {
				s := redistest.Stored{Flag: flag, State: "H", Till: now.UnixMilli() + 60_000, Token: token, ID: claim.ID, Details: "60000", Content: "\nme\n"}
				switch name {
				case "free", "new":
					s = redistest.Stored{Flag: flag, State: "F", Token: token}
				case "lapsed":
					s.Till = now.UnixMilli()
				case "broken":
					s.State, s.Content = "B", "\nme\n\nsomebody\nwhy"
				case "reserved":
					s = redistest.Reserved(token, now.Add(time.Second), "b")
				case "another's":
					s.ID = "b"
				case "the future's":
					s.Token = now.UnixMicro() + 1
				}
				for i := range ended {
					s.Ended += fmt.Sprint("ended", i, []string{"", "!"}[i%2], " ")
				}
				text := s.String()
				switch name {
				case "new":
					text = ""
				case "theirs":
					text = "1" + text[1:]
				}
				for what, op := range operations {
					rest := b.eval(op, now, text, "if not text.err and", "if false and")
					require.Equal(t, rest, b.eval(op, now, text, "", ""), "%s of what is %s", what, name)
					if b.eval(op, now, text, "reply or complete(k, a)", "reply or {}")[0] != "[[]]" {
						fastPaths[what+" "+name+" "+flag] = true
					}
				}
			}
		}
	}
	require.Equal(t, map[string]bool{
		"acquire free -": true, "acquire free w": true, "acquire new -": true, "acquire new w": true,
		"release held -": true, "release lapsed -": true,
		"release of another another's -": true, "renew held -": true, "renew held w": true,
	}, fastPaths)
}

// eval stores text as the record of a name, runs an operation at the time now, and returns the reply, the record stored
// afterwards, and the record's remaining time in minutes. In the script, new replaces old.
func (b *bed) eval(op script.Operation, now time.Time, text, old, new string) [3]string {
	b.t.Helper()
	p := op.Script
	code := strings.Replace(p.Text, "redis.pcall('TIME')", fmt.Sprintf("{'%d', '%d'}", now.Unix(), now.Nanosecond()/1000), 1)
	require.NotEqual(b.t, p.Text, code)
	require.Contains(b.t, code, old)
	code = strings.Replace(code, old, new, 1)
	b.admin.Del(b.t.Context(), op.Keys[0])
	if text != "" {
		b.set(op.Keys[0], text, time.Hour)
	}
	args := []any{"0", "", op.Span.TTL, op.Span.Keep}
	for _, arg := range op.Args[:p.Args] {
		args = append(args, arg)
	}
	reply, err := b.admin.Eval(b.t.Context(), code, op.Keys[:p.Keys], args...).Result()
	require.NoError(b.t, err)
	return [3]string{fmt.Sprint(reply), b.admin.Get(b.t.Context(), op.Keys[0]).Val(), b.left(op.Keys[0]).Round(time.Minute).String()}
}

func TestEachRenewalOfABatchHasItsOwnTTL(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	ttls := []time.Duration{time.Minute, time.Hour, abstractions.Infinite, 90 * time.Second}
	reqs := make([]abstractions.RenewRequest, 100)
	for i := range reqs {
		g := b.Take(fmt.Sprint("n", i), "a", 30*time.Second)
		reqs[i] = abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: ttls[i%len(ttls)]}
	}
	results, err := b.RenewBatch(b.t.Context(), reqs)
	require.NoError(t, err)
	for i, r := range results {
		require.NoError(t, r.Err)
		require.Equal(t, reqs[i].Name, r.Grant.Name)
		require.InDelta(t, reqs[i].TTL, b.stored(reqs[i].Name).Left(), float64(30*time.Second))
	}
}
