package lockers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestKeeperRenewsAtSixTenths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keeper
		start := time.Now()
		var at []time.Duration
		k.keep(10*time.Second, func(context.Context) error {
			at = append(at, time.Since(start))
			return errors.New("unreachable") // the next tick tries again
		})
		time.Sleep(20 * time.Second)
		k.end()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		assert.Equal(t, []time.Duration{6 * time.Second, 12 * time.Second, 18 * time.Second}, at)
		assert.True(t, k.Kept())
	})
}

func TestKeeperEndsWithItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keeper
		renewals := 0
		k.keep(10*time.Second, func(context.Context) error {
			renewals++
			return errGone
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, renewals)
		assert.False(t, k.Kept())
		k.end()
	})
}

func TestKeeperBoundsARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keeper
		var took []time.Duration
		k.keep(10*time.Second, func(ctx context.Context) error {
			start := time.Now()
			<-ctx.Done()
			took = append(took, time.Since(start))
			return ctx.Err()
		})
		time.Sleep(9 * time.Second)
		k.end()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []time.Duration{2 * time.Second}, took)
	})
}
