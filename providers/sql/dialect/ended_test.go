package dialect

import (
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/stretchr/testify/require"
)

// remembered returns the stored form of IDs that were added one after the other.
func remembered(ended providerkit.Ended) []byte {
	stored := EncodeEnded(nil, nil)
	for i := range ended {
		stored = EncodeEnded(ended[i:i+1], stored)
	}
	return stored
}

func TestEndedIDsAreFoundAgain(t *testing.T) {
	var ended providerkit.Ended
	for i := range providerkit.EndedMost {
		id := abstractions.NewID()
		if i%2 == 0 { // every second ID has 9 bytes
			id = fmt.Sprintf("%09d", i)
		}
		ended = append(ended, providerkit.EndedID{ID: id, Broken: i%3 == 0, At: 1 << 31})
	}
	stored := remembered(ended)
	require.Len(t, stored, len(ended)*EndedBytes)
	for i, entry := range ended {
		require.Equal(t, ended[i:i+1], decodeEnded(stored, "holder", entry.ID))
		require.Equal(t, ended[i:i+1], decodeEnded(stored, entry.ID, entry.ID))
		require.Equal(t, stored, EncodeEnded(ended[i:i+1], stored), "it is there")
	}
	require.Nil(t, decodeEnded(stored, "holder", ""))
	require.NotNil(t, EncodeEnded(nil, nil), "the column is NOT NULL")
	require.Nil(t, decodeEnded(nil, "holder", "id"))
}

// A row remembers the IDs of the rule, and sometimes more: old IDs are dropped gradually.
func TestEndedIDsAreDroppedByAndBy(t *testing.T) {
	const long = int64(providerkit.EndedFor/time.Second) + 1
	var rule providerkit.Ended
	var stored []byte
	for i := range int64(300) {
		at := i / 7
		if i >= 200 { // after a quiet time
			at += long + (i-200)*long/20
		}
		entry := providerkit.EndedID{ID: fmt.Sprint(i), At: at}
		rule = rule.Add(entry.ID, false, time.Unix(at, 0))
		stored = EncodeEnded(providerkit.Ended{entry}, stored)
		for _, entry := range rule {
			require.Equal(t, providerkit.Ended{entry}, decodeEnded(stored, "", entry.ID))
		}
		require.LessOrEqual(t, len(stored), providerkit.EndedMost*EndedBytes)
	}
	require.Less(t, len(stored), 30*EndedBytes, "those of the busy time are gone")
}
