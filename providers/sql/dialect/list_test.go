package dialect

import (
	"strings"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestNamesWithAPrefixAreBeforeWhatIsBeyond(t *testing.T) {
	for _, prefix := range []string{"", "a", "jobs/", "ä", "a\U0010FFFF", "\uD7FF", "a\u007f", "x\uFFFF", strings.Repeat("n", abstractions.MaxNameBytes)} {
		last := prefix
		for len(last)+4 <= abstractions.MaxNameBytes {
			last += "\U0010FFFF"
		}
		require.Less(t, last, Beyond(prefix))
		if prefix != "" && !strings.HasSuffix(prefix, "\U0010FFFF") {
			next := []rune(prefix)
			next[len(next)-1]++
			if string(next) != "\uFFFD" { // no surrogate
				require.Greater(t, string(next), Beyond(prefix))
			}
		}
	}
}
