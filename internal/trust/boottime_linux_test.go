package trust

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSystemClock(t *testing.T) {
	c := SystemClock()
	defer c.Alarm.Close()
	require.NotNil(t, c.boot, "Linux has CLOCK_BOOTTIME")
	before := c.Now()
	c.Alarm.Set(time.Millisecond)
	<-c.Alarm.Fired()
	after := c.Now()
	require.GreaterOrEqual(t, after.Boot-before.Boot, time.Millisecond)
	require.Positive(t, after.Mono-before.Mono)
	require.WithinDuration(t, time.Now(), c.Time(after.Mono), time.Minute)

	c.Alarm.Set(Forever) // replaces an earlier one
	c.Alarm.Set(0)       // at once
	<-c.Alarm.Fired()
}

func TestVirtualTimeHasNoBootClock(t *testing.T) {
	require.False(t, virtualTime())
	synctest.Test(t, func(t *testing.T) {
		require.True(t, virtualTime())
		c := SystemClock()
		defer c.Alarm.Close()
		require.Nil(t, c.boot)
		require.Nil(t, c.Alarm.Fired())
	})
}
