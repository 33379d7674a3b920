package bloblease

import (
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/stretchr/testify/require"
)

func TestBlobRecordComesBackAsItWent(t *testing.T) {
	r := record{
		Name: "n", Token: abstractions.MaxToken, ID: "id", Over: "over", Breaking: true, BrokenBy: "ops", BreakReason: "why", Grace: 3, Owner: "o €", Seconds: infinite, Since: 1795273365,
		Metadata: map[string]string{"Case": "1", "case": "2", "<>&": "\u2028"}, Ended: providerkit.ParseEnded("b!@1795273365 a"),
	}
	their := "x"
	for _, filler := range []string{"", strings.Repeat(`"`, 4000)} {
		r.Metadata["filler"] = filler
		metadata, err := r.encode(map[string]*string{"their": &their})
		require.NoError(t, err)
		value := metadata[metadataName]
		delete(metadata, metadataName)
		metadata["LeaSing"] = value // services and proxies change the case
		back, found, others, err := decodeRecord(metadata)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, r, back)
		require.Equal(t, map[string]*string{"their": &their}, others)
		require.Regexp(t, `^[0-9A-Za-z._-]+$`, *value, "fit for a header")
	}
	_, found, others, err := decodeRecord(nil)
	require.NoError(t, err)
	require.False(t, found)
	require.Nil(t, others)
}

// What makes a bomb of a record is refused.
func TestBlobRecordThatInflates(t *testing.T) {
	r := record{Owner: strings.Repeat("x", 2*maxInflated)}
	metadata, err := r.encode(nil)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(*metadata[metadataName], asDeflate))
	_, _, _, err = decodeRecord(metadata)
	require.ErrorIs(t, err, errRecord)
}

func FuzzBlobRecord(f *testing.F) {
	f.Add("1.eyJ0b2tlbiI6MX0")
	f.Add("1z.AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRecord(text)
		if err == nil {
			require.LessOrEqual(t, r.Token, int64(abstractions.MaxToken))
			require.GreaterOrEqual(t, r.Token, int64(0))
		}
	})
}

// T56: a record that is full forgets the oldest IDs that ended, and never the latest.
func TestTrap_T56_BlobRecordKeepsTheLatestEndedIDs(t *testing.T) {
	now := time.Unix(1795273365, 0)
	r := record{Metadata: map[string]string{"k": randomText(3800)}}
	for range providerkit.EndedMost {
		r.Ended = r.Ended.Add(abstractions.NewID(), true, now)
	}
	their := strings.Repeat("x", 5000)
	metadata, err := r.encode(map[string]*string{"their": &their})
	require.NoError(t, err)
	require.LessOrEqual(t, len(*metadata[metadataName])+len(metadataName)+len("their")+len(their), maxMetadata)
	back, _, _, err := decodeRecord(metadata)
	require.NoError(t, err)
	require.Less(t, len(back.Ended), providerkit.EndedMost)
	require.GreaterOrEqual(t, len(back.Ended), providerkit.EndedLeast)
	require.Equal(t, r.Ended[len(r.Ended)-len(back.Ended):], back.Ended)
	require.Len(t, r.Ended, providerkit.EndedMost, "the record itself is as it was")
}

func TestBlobSeconds(t *testing.T) {
	for ttl, want := range map[time.Duration]int32{minTTL: 15, minTTL + 1: 16, 15500 * time.Millisecond: 16, maxTTL: 60, abstractions.Infinite: infinite} {
		require.Equal(t, want, seconds(ttl))
	}
	require.Equal(t, abstractions.Infinite, ttlOf(infinite))
}
