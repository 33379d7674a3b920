package postgreslease

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesInHex(t *testing.T) {
	for column, want := range map[any]string{nil: "", "": "", "00ff": "\x00\xff"} {
		var b hexBytes
		require.NoError(t, b.Scan(column))
		require.Equal(t, want, string(b))
	}
	var b hexBytes
	require.NoError(t, b.Scan([]byte("00ff")))
	require.Equal(t, "\x00\xff", string(b))
	require.Error(t, b.Scan("\\x00"))
}
