package sqllease

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinuxKnowsItsBoot(t *testing.T) {
	now := hostClock()
	require.Len(t, strings.Fields(now.boot)[0], 36, "a UUID")
	require.Contains(t, now.boot, "time:[")
	require.Positive(t, now.sinceBoot)
}
