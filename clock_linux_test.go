package leasing

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSystemClock(t *testing.T) {
	c := systemClock()
	defer c.alarm.close()
	require.NotNil(t, c.boot, "Linux has CLOCK_BOOTTIME")
	before := c.now()
	c.alarm.set(time.Millisecond)
	<-c.alarm.fired()
	after := c.now()
	require.GreaterOrEqual(t, after.boot-before.boot, time.Millisecond)
	require.Positive(t, after.mono-before.mono)
	require.WithinDuration(t, time.Now(), c.time(after.mono), time.Minute)

	c.alarm.set(forever) // replaces an earlier one
	c.alarm.set(0)       // at once
	<-c.alarm.fired()
}

func TestVirtualTimeHasNoBootClock(t *testing.T) {
	require.False(t, virtualTime())
	synctest.Test(t, func(t *testing.T) {
		require.True(t, virtualTime())
		c := systemClock()
		defer c.alarm.close()
		require.Nil(t, c.boot)
		require.Nil(t, c.alarm.fired())
	})
}
