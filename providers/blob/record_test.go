package bloblease

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestBlobRecordComesBackAsItWent(t *testing.T) {
	r := record{
		Name: "n", Token: abstractions.MaxToken, ID: "id", Phase: breaking, Owner: "o €", Seconds: infinite, Since: 1795273365,
		Metadata: map[string]string{"Case": "1", "case": "2", "<>&": "\u2028"}, Ended: []string{"a", "b!"},
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

// T56: a name remembers the last IDs that ended, and how.
func TestTrap_T56_BlobRecordRemembersEndedIDs(t *testing.T) {
	var r record
	now := time.Unix(1795273365, 0)
	for i := range 12 {
		id := fmt.Sprint("id", i)
		r = r.claim(abstractions.AcquireRequest{ID: id, TTL: minTTL}, now, false)
		how := released
		if i%2 == 1 {
			how = broken
		}
		r = r.end(how)
	}
	for i := range 12 {
		over, wasBroken := r.over(fmt.Sprint("id", i))
		require.Equal(t, i >= 12-remembered-1, over, i)
		require.Equal(t, over && i%2 == 1, wasBroken, i)
	}
	require.EqualValues(t, now.UnixMicro()+11, r.Token)

	r = r.claim(abstractions.AcquireRequest{ID: "runs out", TTL: minTTL}, now, false)
	r = r.claim(abstractions.AcquireRequest{ID: "broken in the portal", TTL: minTTL}, now, false)
	over, _ := r.over("runs out")
	require.False(t, over, "a claim that has run out may ask again")
	r = r.claim(abstractions.AcquireRequest{ID: "next", TTL: minTTL}, now, true)
	over, wasBroken := r.over("broken in the portal")
	require.True(t, over && wasBroken)
	over, _ = r.refuse("never").over("never")
	require.True(t, over)
}

func TestBlobSeconds(t *testing.T) {
	for ttl, want := range map[time.Duration]int32{minTTL: 15, minTTL + 1: 16, 15500 * time.Millisecond: 16, maxTTL: 60, abstractions.Infinite: infinite} {
		require.Equal(t, want, seconds(ttl))
	}
	require.Equal(t, abstractions.Infinite, ttlOf(infinite))
	require.Equal(t, infinite, longer(15, infinite))
	require.EqualValues(t, 30, longer(15, 30))
	require.EqualValues(t, 60, nextDuration(infinite, 15))
	require.True(t, covers(30, 30) && covers(30, 15) && covers(infinite, infinite))
	require.False(t, covers(30, 31) || covers(infinite, 30) || covers(30, infinite))
}
