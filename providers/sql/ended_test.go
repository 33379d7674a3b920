package sqllease

import (
	"fmt"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/stretchr/testify/require"
)

func TestEndedIDsAreFoundAgain(t *testing.T) {
	var ended providerkit.Ended
	for i := range providerkit.EndedMost {
		id := abstractions.NewID()
		if i%2 == 0 { // as long as an entry, and as short as can be
			id = fmt.Sprintf("%09d", i)
		}
		ended = append(ended, providerkit.EndedID{ID: id, Broken: i%3 == 0, At: 1 << 31})
	}
	stored := encodeEnded(ended)
	require.Len(t, stored, len(ended)*endedBytes)
	for i, entry := range ended {
		read := decodeEnded(stored, "holder", entry.ID)
		require.Len(t, read, len(ended))
		require.Equal(t, entry, read[i])
		known, broken := read.Find(entry.ID)
		require.True(t, known)
		require.Equal(t, entry.Broken, broken)
		known, _ = read.Find("holder")
		require.False(t, known)
		require.Equal(t, stored, encodeEnded(read), "what nobody asked for stays as it is")
	}
	require.NotNil(t, encodeEnded(nil), "the column is NOT NULL")
	require.Nil(t, decodeEnded(nil, "holder"))
}
