package leasing

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSystemClock(t *testing.T) {
	c := systemClock()
	defer c.close()
	require.NotNil(t, c.boot, "Linux has CLOCK_BOOTTIME")
	before := c.now()
	c.setAlarm(time.Millisecond)
	<-c.resumed()
	after := c.now()
	require.GreaterOrEqual(t, after.boot-before.boot, time.Millisecond)
	require.Positive(t, after.mono-before.mono)
	require.WithinDuration(t, time.Now(), c.time(after.mono), time.Minute)

	c.setAlarm(forever) // replaces an earlier one
	c.setAlarm(0)       // at once
	<-c.resumed()
}

func TestVirtualTimeHasNoBootClock(t *testing.T) {
	require.False(t, virtualTime())
	synctest.Test(t, func(t *testing.T) {
		require.True(t, virtualTime())
		c := systemClock()
		defer c.close()
		require.Nil(t, c.boot)
		require.Nil(t, c.resumed())
	})
}
