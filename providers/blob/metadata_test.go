package bloblease

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/stretchr/testify/require"
)

func TestBlobRecordComesBackAsItWent(t *testing.T) {
	their := "x"
	for _, filler := range []string{"€ <>&", strings.Repeat(`\"`, 4000)} {
		record := []byte(`{"name":"` + filler + `"}`)
		metadata, err := encode("id", record, map[string]*string{"their": &their})
		require.NoError(t, err)
		value := metadata[metadataName]
		delete(metadata, metadataName)
		metadata["LeaSing"] = value // services and proxies change the case
		holder, back, others, err := decode(metadata)
		require.NoError(t, err)
		require.Equal(t, "id", holder)
		require.Equal(t, string(record), string(back))
		require.Equal(t, map[string]*string{"their": &their}, others)
		require.Regexp(t, `^[0-9A-Za-z._-]+$`, *value, "fit for a header")
	}
	_, record, others, err := decode(nil)
	require.NoError(t, err)
	require.Nil(t, record)
	require.Nil(t, others)
}

// A record that inflates to an excessive size is refused.
func TestBlobRecordThatInflates(t *testing.T) {
	metadata, err := encode("", []byte(`"`+strings.Repeat("x", 2*maxInflated)+`"`), nil)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(*metadata[metadataName], asDeflate))
	_, _, _, err = decode(metadata)
	require.ErrorIs(t, err, errRecord)
}

func FuzzBlobRecord(f *testing.F) {
	f.Add("1.id.eyJ0b2tlbiI6MX0")
	f.Add("1z..AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if _, record, err := parse(text); err == nil {
			require.True(t, json.Valid(record))
		}
	})
}

// T56: a full record drops the oldest ended IDs, and never the latest.
func TestTrap_T56_BlobRecordKeepsTheLatestEndedIDs(t *testing.T) {
	now := time.Unix(1795273365, 0)
	type fields struct {
		Token int64             `json:"token"`
		Text  string            `json:"text"`
		Ended providerkit.Ended `json:"ended"`
	}
	r := fields{Token: abstractions.MaxToken, Text: randomText(3800)}
	for range providerkit.EndedMost {
		r.Ended = r.Ended.Add(abstractions.NewID(), true, now)
	}
	record, err := json.Marshal(r)
	require.NoError(t, err)
	their := strings.Repeat("x", 5000)
	metadata, err := encode("id", record, map[string]*string{"their": &their})
	require.NoError(t, err)
	require.LessOrEqual(t, len(*metadata[metadataName])+len(metadataName)+len("their")+len(their), maxMetadata)
	_, record, _, err = decode(metadata)
	require.NoError(t, err)
	var back fields
	require.NoError(t, json.Unmarshal(record, &back))
	require.Less(t, len(back.Ended), providerkit.EndedMost)
	require.GreaterOrEqual(t, len(back.Ended), providerkit.EndedLeast)
	require.Equal(t, r.Ended[len(r.Ended)-len(back.Ended):], back.Ended)
	require.Equal(t, []any{r.Token, r.Text}, []any{back.Token, back.Text})
	their = strings.Repeat("x", 7000)
	_, err = encode("id", record, map[string]*string{"their": &their})
	require.ErrorIs(t, err, abstractions.ErrInvalid, "some are always kept")
}

func TestBlobSeconds(t *testing.T) {
	for ttl, want := range map[time.Duration]int32{minTTL: 15, minTTL + 1: 16, 15500 * time.Millisecond: 16, maxTTL: 60, abstractions.Infinite: infinite} {
		require.Equal(t, want, seconds(ttl))
	}
}

// A write time of up to one reservation in the future counts as now, since the clocks of
// the service's front ends differ by a second or two.
func TestBlobReservationByClocksThatDiffer(t *testing.T) {
	now := time.Unix(1795273365, 0)
	for ago, want := range map[time.Duration]time.Duration{
		0: reservation, time.Second: 2 * time.Second, reservation: 0, time.Hour: reservation - time.Hour,
		-time.Second: reservation, -reservation: reservation, -reservation - time.Second: 0, -time.Hour: 0,
	} {
		judged := func(state lease.StateType) *providerkit.Record {
			r := &providerkit.Record{ID: "a", TTL: maxTTL, Left: maxTTL, AcquiredAt: now.Add(-ago), Now: now}
			(&store{}).Complete(cas.Item{Written: now.Add(-ago), State: &blobState{lease: state}}, r)
			return r
		}
		require.Equal(t, want, judged(lease.StateTypeAvailable).Left, ago)
		for _, other := range []lease.StateType{lease.StateTypeExpired, lease.StateTypeBroken} {
			require.False(t, judged(other).Held(), "it has been taken, and is over")
		}
	}
}

// Every release must read the metadata that release 0.1.0 stored, both as JSON and deflated.
func TestMetadataOfTheFirstRelease(t *testing.T) {
	const (
		short = `{"v":1,"name":"jobs/daily","token":1789000000123456,"id":"0123456789abcdef","write":"1f2e3d4c5b6a7988"}`
		plain = "1.0123456789abcdef." +
			"eyJ2IjoxLCJuYW1lIjoiam9icy9kYWlseSIsInRva2VuIjoxNzg5MDAwMDAwMTIzNDU2LCJpZCI6IjAxMjM0NTY3ODlhYmNkZWYiLCJ3cml0ZSI6IjFmMmUzZDRjNWI2YTc5ODgifQ"
		deflated = "1z.0123456789abcdef.7MDBCcIwAAXQXf45IF6zTcQcFE1AoaWU7t45Cu_tWVLvJaN9e2re8_G_Pdvrs6VkrqP_UjMBAAAAAAAAgMvLcQYAAP__"
	)
	metadata, err := encode("0123456789abcdef", []byte(short), nil)
	require.NoError(t, err)
	require.Equal(t, plain, *metadata[metadataName])
	long := `{"v":1,"name":"jobs/daily","owner":"` + strings.Repeat("o", maxMetadata) + `"}`
	for value, record := range map[string]string{plain: short, deflated: long} {
		holder, read, _, err := decode(map[string]*string{metadataName: &value})
		require.NoError(t, err)
		require.Equal(t, "0123456789abcdef", holder)
		require.JSONEq(t, record, string(read))
	}
}
