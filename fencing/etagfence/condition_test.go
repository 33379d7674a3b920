package etagfence_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/etagfence"
	"github.com/distributedleasing/leasing/fencing/internal/fencingtest"
)

func TestConditionNamesTheVersionThatWasRead(t *testing.T) {
	condition, err := etagfence.NewCondition("report", etagfence.Object{ETag: `"1"`, Token: 7}, 7)
	require.NoError(t, err)
	require.Equal(t, `"1"`, condition.IfMatch)
	require.Empty(t, condition.IfNoneMatch)
	require.EqualValues(t, 7, condition.Token)
	require.NotEmpty(t, condition.WriteID)
	require.Equal(t, http.Header{"If-Match": {`"1"`}}, condition.Header())

	other, err := etagfence.NewCondition("report", etagfence.Object{ETag: `"1"`}, 8)
	require.NoError(t, err, "an object that carries no token has never been fenced")
	require.EqualValues(t, 8, other.Token)
	require.NotEqual(t, condition.WriteID, other.WriteID, "each write has its own")
}

func TestConditionRefusesAStaleToken(t *testing.T) {
	_, err := etagfence.NewCondition("report", etagfence.Object{ETag: `"1"`, Token: 8}, 7)
	require.Equal(t, &fencing.StaleError{Resource: "report", Token: 7, Seen: 8}, err)
}

// A write without a condition would overwrite another writer's work.
func TestTrap_T46_AConditionIsNeverEmpty(t *testing.T) {
	condition, err := etagfence.NewCondition("report", etagfence.Object{}, 7)
	require.NoError(t, err)
	require.Empty(t, condition.IfMatch)
	require.Equal(t, "*", condition.IfNoneMatch)
	require.Equal(t, http.Header{"If-None-Match": {"*"}}, condition.Header())
	require.Equal(t, http.Header{"If-None-Match": {"*"}}, etagfence.Condition{}.Header())
}

func TestConditionRefusesWhatWasNotReadWell(t *testing.T) {
	for text, read := range map[string]etagfence.Object{
		"every version":            {ETag: "*", Token: 1},
		"a weak ETag":              {ETag: `W/"1"`, Token: 1},
		"a token without an ETag":  {Token: 1},
		"a write without an ETag":  {WriteID: "x"},
		"a token below 0":          {ETag: `"1"`, Token: -1},
		"a token beyond any float": {ETag: `"1"`, Token: leasing.MaxToken + 1},
	} {
		_, err := etagfence.NewCondition("report", read, 7)
		require.ErrorIs(t, err, leasing.ErrInvalid, text)
		require.ErrorContains(t, err, "Object.", text)
	}
	for _, token := range fencingtest.BadTokens {
		_, err := etagfence.NewCondition("report", etagfence.Object{}, token)
		require.ErrorIs(t, err, leasing.ErrInvalid)
	}
}

func TestMetadataGoesAroundInAnyCase(t *testing.T) {
	condition := etagfence.Condition{Token: leasing.MaxToken, WriteID: "write-1"}
	metadata := etagfence.Metadata(condition, map[string]string{"Leasingtoken": "1", "LEASINGWRITE": "0", "Owner": "me"})
	require.Equal(t, map[string]string{"leasingtoken": "9007199254740991", "leasingwrite": "write-1", "Owner": "me"}, metadata)

	for _, name := range []string{"leasingtoken", "Leasingtoken", "LEASINGTOKEN"} {
		object, err := etagfence.ReadObject(`"1"`, map[string]string{name: "9007199254740991", "LeasingWrite": "write-1"})
		require.NoError(t, err)
		require.Equal(t, etagfence.Object{ETag: `"1"`, Token: leasing.MaxToken, WriteID: "write-1"}, object)
	}
}

func TestMetadataOfPointers(t *testing.T) {
	me := "me"
	others := map[string]*string{"Owner": &me, "Empty": nil, "Leasingtoken": nil}
	metadata := etagfence.Metadata(etagfence.Condition{Token: 7, WriteID: "write-1"}, others)
	require.Equal(t, "7", *metadata["leasingtoken"])
	require.Equal(t, "write-1", *metadata["leasingwrite"])
	require.Same(t, &me, metadata["Owner"])
	require.Len(t, metadata, 4)
	require.Len(t, others, 3, "the others stay as they were")

	object, err := etagfence.ReadObject(`"1"`, metadata)
	require.NoError(t, err)
	require.Equal(t, etagfence.Object{ETag: `"1"`, Token: 7, WriteID: "write-1"}, object)
}

func TestMetadataWithNothingElse(t *testing.T) {
	metadata := etagfence.Metadata[string](etagfence.Condition{Token: 7, WriteID: "w"}, nil)
	require.Equal(t, map[string]string{"leasingtoken": "7", "leasingwrite": "w"}, metadata)
	object, err := etagfence.ReadObject[*string](`"1"`, nil)
	require.NoError(t, err)
	require.Equal(t, etagfence.Object{ETag: `"1"`}, object, "never fenced")
}

// An unreadable token must not count as a missing token.
func TestReadObjectRefusesWhatIsNoToken(t *testing.T) {
	for _, text := range fencingtest.NotTokens {
		_, err := etagfence.ReadObject(`"1"`, map[string]string{"Leasingtoken": text})
		require.ErrorIs(t, err, leasing.ErrInvalid, "%q", text)
		require.ErrorContains(t, err, "leasingtoken")
	}
	_, err := etagfence.ReadObject(`"1"`, map[string]*string{"leasingtoken": nil})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	_, err = etagfence.ReadObject(`"1"`, map[string]string{"Leasingtoken": "1", "leasingtoken": "2"})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	_, err = etagfence.ReadObject(`"1"`, map[string]string{"Leasingwrite": "a", "leasingwrite": ""})
	require.ErrorIs(t, err, leasing.ErrInvalid)
}
