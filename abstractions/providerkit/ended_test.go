package providerkit

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

func TestEndedRemembersTheLatest(t *testing.T) {
	var list Ended
	for i := range EndedMost + 3 {
		list = list.Add(fmt.Sprintf("id-%d", i), i%2 == 0, noon)
	}
	require.Len(t, list, EndedMost)
	for i := range EndedMost + 3 {
		known, broken := list.Find(fmt.Sprintf("id-%d", i))
		require.Equal(t, i >= 3, known)
		require.Equal(t, known && i%2 == 0, broken)
	}
	known, _ := list.Find("id")
	require.False(t, known, "a part of an ID is none")
	require.Equal(t, list, list.Add("id-5", true, noon), "it was released, and stays so")
	require.Equal(t, list, ParseEnded(list.String()))

	list = list.Add("late", false, noon.Add(EndedFor+time.Second))
	require.Len(t, list, EndedLeast, "the older ones are over")
}

// T56: a late copy of an acquire is refused although many other claims have held a
// busy name since its release. The numbers are those of the documentation.
func TestTrap_T56_LateCopyOnABusyName(t *testing.T) {
	r := Record{Name: "n", Now: noon}
	late := acquire("late", time.Minute)
	require.NoError(t, r.Acquire(late).Err)
	r.Release(abstractions.ReleaseRequest{Name: "n", ID: "late"})
	for i := range 63 {
		r.Now = r.Now.Add(time.Minute / 64)
		r.Left = r.TTL
		id := fmt.Sprint("other-", i)
		require.NoError(t, r.Acquire(acquire(id, time.Minute)).Err)
		r.Release(abstractions.ReleaseRequest{Name: "n", ID: id})
		require.ErrorIs(t, r.Acquire(late).Err, abstractions.ErrReleased, "after %d others", i+1)
	}
}

func TestEndedIsStoredAsText(t *testing.T) {
	list := Ended{{ID: "a"}, {ID: "b", Broken: true, At: 12}, {ID: "c", At: 13}}
	require.Equal(t, "c@13 b!@12 a", list.String())
	require.Equal(t, Ended{{ID: "a"}, {ID: "b", Broken: true}}, ParseEnded("b! a"), "of a version that kept no times")
	require.Empty(t, ParseEnded(""))
	text, err := json.Marshal(map[string]Ended{"ended": list})
	require.NoError(t, err)
	require.JSONEq(t, `{"ended": "c@13 b!@12 a"}`, string(text))
	var back map[string]Ended
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, list, back["ended"])
}

func TestARecordStaysSmall(t *testing.T) {
	var list Ended
	for range EndedMost {
		list = list.Add(abstractions.NewID(), true, noon)
	}
	require.Less(t, len(list.String()), 4<<10)
}
