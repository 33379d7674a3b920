package sqlitelease

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/stretchr/testify/require"
)

// clockOf replaces p's clock with a clock that the test sets.
func clockOf(p *Provider, start hostclock.Time) *atomic.Pointer[hostclock.Time] {
	var now atomic.Pointer[hostclock.Time]
	now.Store(&start)
	backendOf(p).Clock = func() hostclock.Time { return *now.Load() }
	return &now
}

// later advances both clocks by the duration passed, and the wall clock also by the duration step.
func later(now hostclock.Time, passed, step time.Duration) *hostclock.Time {
	now.Wall = now.Wall.Add(passed + step)
	now.SinceBoot += passed
	return &now
}

// rebooted returns a time in the next boot, with passed added to the wall clock.
func rebooted(now hostclock.Time, passed, sinceBoot time.Duration) *hostclock.Time {
	return &hostclock.Time{Wall: now.Wall.Add(passed), Boot: "boot-2 time:[1]", SinceBoot: sinceBoot}
}

var morning = hostclock.Time{Wall: time.Date(2026, 3, 1, 8, 0, 0, 123456789, time.UTC), Boot: "boot-1 time:[1]", SinceBoot: 5*time.Hour + 987654321}

// T02 on a file: steps of the wall clock have no effect. In each case another claim gets the
// name when the TTL has passed, and not before.
func TestTrap_T02_StepsOfTheWallClockDecideNothing(t *testing.T) {
	const ttl = time.Minute
	for name, step := range map[string]time.Duration{
		"still": 0, "forwards": 24 * time.Hour, "backwards": -24 * time.Hour, "a little forwards": ttl, "a little backwards": -time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, p := bounded(t), database.New(t)()
			clock := clockOf(p, morning)
			claim, err := p.Acquire(ctx, claimOf("n", ttl))
			require.NoError(t, err)

			clock.Store(later(morning, ttl-time.Nanosecond, step))
			_, err = p.Acquire(ctx, claimOf("n", ttl))
			require.ErrorIs(t, err, abstractions.ErrHeld)
			record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
			require.NoError(t, err)
			left, known := record.Remaining()
			require.True(t, known)
			require.InDelta(t, 0, left, float64(time.Microsecond))
			list, err := p.List(ctx, abstractions.ListRequest{HeldOnly: true})
			require.NoError(t, err)
			require.Len(t, list.Records, 1)
			_, err = p.Renew(ctx, renewalOf(claim))
			require.NoError(t, err)

			end := *later(morning, 2*ttl+time.Microsecond, step)
			clock.Store(&end)
			list, err = p.List(ctx, abstractions.ListRequest{HeldOnly: true})
			require.NoError(t, err)
			require.Empty(t, list.Records)
			_, err = p.Renew(ctx, renewalOf(claim))
			lostBecause(t, err, abstractions.LostExpired)
			next, err := p.Acquire(ctx, claimOf("n", ttl))
			require.NoError(t, err)
			require.Greater(t, next.Token, claim.Token)
		})
	}
}

// After a reboot the BOOTTIME clock has restarted at zero, and proves nothing.
func TestAfterARebootTheWallClockDecides(t *testing.T) {
	const ttl = time.Minute
	ctx, p := bounded(t), database.New(t)()
	clock := clockOf(p, morning)
	claim, err := p.Acquire(ctx, claimOf("n", ttl))
	require.NoError(t, err)

	// The time since the boot is past the deadline, but the wall clock is not.
	second := *rebooted(morning, 50*time.Second, 10*time.Hour)
	clock.Store(&second)
	_, err = p.Acquire(ctx, claimOf("n", ttl))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, abstractions.FingerprintOf(claim.ID), record.Fingerprint)

	// The refused acquire stored the deadline by the clock of this boot, so a step of the wall
	// clock has no effect from now on.
	clock.Store(later(second, 9*time.Second, 24*time.Hour))
	_, err = p.Acquire(ctx, claimOf("n", ttl))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	clock.Store(later(second, 10*time.Second+10*time.Microsecond, -24*time.Hour))
	next, err := p.Acquire(ctx, claimOf("n", ttl))
	require.NoError(t, err)
	require.Greater(t, next.Token, claim.Token)

	// The wall clock is past the deadline, but the time since the boot is not.
	clock.Store(&hostclock.Time{Wall: second.Wall.Add(time.Hour), Boot: "boot-3 time:[1]", SinceBoot: time.Second})
	_, err = p.Acquire(ctx, claimOf("n", ttl))
	require.NoError(t, err)
}

// A host without a battery boots with its clock in 1970: the leases of the earlier boot last
// for their TTL, and not for decades.
func TestRebootIntoThePast(t *testing.T) {
	ctx, p := bounded(t), database.New(t)()
	clock := clockOf(p, morning)
	claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)

	past := hostclock.Time{Wall: time.Unix(100, 0), Boot: "boot-2 time:[1]", SinceBoot: time.Second}
	clock.Store(&past)
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	var held *abstractions.HeldError
	require.ErrorAs(t, err, &held)
	left, _ := held.Holder.Remaining()
	require.Equal(t, time.Minute, left)
	clock.Store(later(past, time.Minute+time.Millisecond, 0))
	next, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	require.Greater(t, next.Token, claim.Token, "though the clock went back")
}

// Without a BOOTTIME clock the wall clock decides, and a step back extends a
// lease by no more than its TTL from the next contender's request.
func TestWithoutABootClock(t *testing.T) {
	ctx, p := bounded(t), database.New(t)()
	start := hostclock.Time{Wall: morning.Wall}
	clock := clockOf(p, start)
	_, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	back := *later(start, 30*time.Second, -24*time.Hour)
	clock.Store(&back)
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	clock.Store(later(back, time.Minute-time.Microsecond, 0))
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	clock.Store(later(back, time.Minute+time.Microsecond, 0))
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
}

// Two time namespaces have one boot but may have two BOOTTIME clocks: between
// them the wall clock decides, and nothing is rewritten.
func TestTimeNamespacesOfOneBoot(t *testing.T) {
	ctx, p := bounded(t), database.New(t)()
	clock := clockOf(p, morning)
	claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	before := stored(t, p)

	other := *later(morning, time.Second, 0)
	other.Boot, other.SinceBoot = "boot-1 time:[2]", time.Hour*1000
	clock.Store(&other)
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Equal(t, before, stored(t, p))
	_, err = p.Renew(ctx, renewalOf(claim))
	require.NoError(t, err)
}

// stored returns the version of the row and its deadline.
func stored(t testing.TB, p *Provider) (columns [3]int64) {
	t.Helper()
	err := dialect.ViaSQL{Querier: backendOf(p).db}.Query(bounded(t), `SELECT version, expires_us, boot_us FROM lease`, nil, func(scan dialect.Scan) error {
		return scan(&columns[0], &columns[1], &columns[2])
	})
	require.NoError(t, err)
	return columns
}
