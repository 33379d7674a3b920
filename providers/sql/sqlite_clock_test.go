package sqllease

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// clockOf gives p a clock of the test's own.
func clockOf(p *Provider, start instant) *atomic.Pointer[instant] {
	var now atomic.Pointer[instant]
	now.Store(&start)
	p.store.backend.(*sqlite).clock = func() instant { return *now.Load() }
	return &now
}

// later is a clock after some time, in which somebody set the wall clock.
func later(now instant, passed, step time.Duration) *instant {
	now.wall = now.wall.Add(passed + step)
	now.sinceBoot += passed
	return &now
}

// rebooted is a clock in the next boot, after some time.
func rebooted(now instant, passed, sinceBoot time.Duration) *instant {
	return &instant{wall: now.wall.Add(passed), boot: "boot-2 time:[1]", sinceBoot: sinceBoot}
}

var morning = instant{wall: time.Date(2026, 3, 1, 8, 0, 0, 123456789, time.UTC), boot: "boot-1 time:[1]", sinceBoot: 5*time.Hour + 987654321}

// T02 on a file: a wall clock that somebody sets decides nothing. Whatever it
// does, another claim gets the name when the TTL has passed, and not before.
func TestTrap_T02_StepsOfTheWallClockDecideNothing(t *testing.T) {
	const ttl = time.Minute
	for name, step := range map[string]time.Duration{
		"still": 0, "forwards": 24 * time.Hour, "backwards": -24 * time.Hour, "a little forwards": ttl, "a little backwards": -time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, p := bounded(t), databases["sqlite"](t)()
			clock := clockOf(p, morning)
			store := p.Store()
			claim, err := store.Acquire(ctx, claimOf("n", ttl))
			require.NoError(t, err)

			clock.Store(later(morning, ttl-time.Nanosecond, step))
			_, err = store.Acquire(ctx, claimOf("n", ttl))
			require.ErrorIs(t, err, abstractions.ErrHeld)
			record, err := store.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
			require.NoError(t, err)
			left, known := record.Remaining()
			require.True(t, known)
			require.InDelta(t, 0, left, float64(time.Microsecond))
			list, err := store.List(ctx, abstractions.ListRequest{HeldOnly: true})
			require.NoError(t, err)
			require.Len(t, list.Records, 1)
			_, err = store.Renew(ctx, renewalOf(claim))
			require.NoError(t, err)

			end := *later(morning, 2*ttl+time.Microsecond, step)
			clock.Store(&end)
			list, err = store.List(ctx, abstractions.ListRequest{HeldOnly: true})
			require.NoError(t, err)
			require.Empty(t, list.Records)
			_, err = store.Renew(ctx, renewalOf(claim))
			lostBecause(t, err, abstractions.LostExpired)
			next, err := store.Acquire(ctx, claimOf("n", ttl))
			require.NoError(t, err)
			require.Greater(t, next.Token, claim.Token)
		})
	}
}

// After a reboot the BOOTTIME clock has begun again and says nothing.
func TestAfterARebootTheWallClockDecides(t *testing.T) {
	const ttl = time.Minute
	ctx, p := bounded(t), databases["sqlite"](t)()
	clock := clockOf(p, morning)
	store := p.Store()
	claim, err := store.Acquire(ctx, claimOf("n", ttl))
	require.NoError(t, err)

	// More time since the boot than the deadline says, and less wall-clock time.
	second := *rebooted(morning, 50*time.Second, 10*time.Hour)
	clock.Store(&second)
	_, err = store.Acquire(ctx, claimOf("n", ttl))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	record, err := store.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, claim.ID, record.ID)

	// Who was refused wrote the deadline down by the clock of this boot: it
	// stands against a step of the wall clock from now on.
	clock.Store(later(second, 9*time.Second, 24*time.Hour))
	_, err = store.Acquire(ctx, claimOf("n", ttl))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	clock.Store(later(second, 10*time.Second+10*time.Microsecond, -24*time.Hour))
	next, err := store.Acquire(ctx, claimOf("n", ttl))
	require.NoError(t, err)
	require.Greater(t, next.Token, claim.Token)

	// Less time since the boot, and more wall-clock time.
	clock.Store(&instant{wall: second.wall.Add(time.Hour), boot: "boot-3 time:[1]", sinceBoot: time.Second})
	_, err = store.Acquire(ctx, claimOf("n", ttl))
	require.NoError(t, err)
}

// A host without a battery wakes up in 1970: the leases of the earlier boot
// last for their TTL, and not for decades.
func TestRebootIntoThePast(t *testing.T) {
	ctx, p := bounded(t), databases["sqlite"](t)()
	clock := clockOf(p, morning)
	store := p.Store()
	claim, err := store.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)

	past := instant{wall: time.Unix(100, 0), boot: "boot-2 time:[1]", sinceBoot: time.Second}
	clock.Store(&past)
	_, err = store.Acquire(ctx, claimOf("n", time.Minute))
	var held *abstractions.HeldError
	require.ErrorAs(t, err, &held)
	left, _ := held.Holder.Remaining()
	require.Equal(t, time.Minute, left)
	clock.Store(later(past, time.Minute+time.Millisecond, 0))
	next, err := store.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	require.Greater(t, next.Token, claim.Token, "though the clock went back")
}

// Without a BOOTTIME clock the wall clock decides, and a step back extends a
// lease by no more than its TTL from the next contender's request.
func TestWithoutABootClock(t *testing.T) {
	ctx, p := bounded(t), databases["sqlite"](t)()
	start := instant{wall: morning.wall}
	clock := clockOf(p, start)
	store := p.Store()
	_, err := store.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	back := *later(start, 30*time.Second, -24*time.Hour)
	clock.Store(&back)
	_, err = store.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	clock.Store(later(back, time.Minute-time.Microsecond, 0))
	_, err = store.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	clock.Store(later(back, time.Minute+time.Microsecond, 0))
	_, err = store.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
}

// Two time namespaces have one boot but may have two BOOTTIME clocks: between
// them the wall clock decides, and nothing is rewritten.
func TestTimeNamespacesOfOneBoot(t *testing.T) {
	ctx, p := bounded(t), databases["sqlite"](t)()
	clock := clockOf(p, morning)
	store := p.Store()
	claim, err := store.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	before, err := store.backend.read(ctx, "n")
	require.NoError(t, err)

	other := *later(morning, time.Second, 0)
	other.boot, other.sinceBoot = "boot-1 time:[2]", time.Hour*1000
	clock.Store(&other)
	_, err = store.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	after, err := store.backend.read(ctx, "n")
	require.NoError(t, err)
	require.Equal(t, before.version, after.version)
	_, err = store.Renew(ctx, renewalOf(claim))
	require.NoError(t, err)
}

func TestDeadlinesOfTheLongestLeases(t *testing.T) {
	now := instant{wall: morning.wall, boot: "b", sinceBoot: math.MaxInt64 / 8}
	require.GreaterOrEqual(t, deadlineIn(now, maxTTL).left(now), maxTTL)
	require.Equal(t, abstractions.Infinite, deadlineIn(now, abstractions.Infinite).left(now))
	require.Equal(t, time.Second, deadlineIn(instant{wall: time.Unix(5, 0)}, time.Second).left(instant{wall: time.Unix(5, 0)}))
}

func TestHostClockAgreesWithItself(t *testing.T) {
	first := hostClock()
	second := hostClock()
	require.Equal(t, first.boot, second.boot)
	require.GreaterOrEqual(t, second.sinceBoot, first.sinceBoot)
}
