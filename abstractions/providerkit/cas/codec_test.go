package cas

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// An error about a stored record that can't be read shows none of the IDs in the record.
func TestTrap_T141_ErrorsOfUnreadableRecordsHaveNoID(t *testing.T) {
	id, ended := abstractions.NewID(), abstractions.NewID()
	r := providerkit.Record{Name: "n", Token: 7, ID: id, Owner: "o", TTL: time.Minute, Ended: providerkit.Ended{{ID: ended, Broken: true}}}
	data, err := currentFormat.encode(&r, deadline{Write: "w"})
	require.NoError(t, err)
	whole := string(data)
	for what, text := range map[string]string{
		"cut off": whole[:len(whole)-1], "cut in the ID": whole[:strings.Index(whole, id)+20], "more": whole + whole, "another version": strings.Replace(whole, `"v":1`, `"v":2`, 1),
		"another name": strings.Replace(whole, `"name":"n"`, `"name":"m"`, 1), "a token out of range": strings.Replace(whole, `"token":7`, `"token":-7`, 1),
		"a token of another type": strings.Replace(whole, `"token":7`, `"token":"`+id+`"`, 1), "an ID in a list": strings.Replace(whole, `"`+id+`"`, `["`+id+`"]`, 1),
		"an ID without quotes": strings.Replace(whole, `"`+id+`"`, id, 1), "the ID alone": id, "quoted": fmt.Sprintf("%q", id), "a TTL of another type": strings.Replace(whole, `"ttl_us":60000000`, `"ttl_us":"`+id+`"`, 1),
	} {
		_, _, err := currentFormat.decode([]byte(text), "n")
		require.ErrorIs(t, err, abstractions.ErrNotSetUp, what)
		shown := fmt.Sprintf("%v %+v %#v", err, err, err)
		require.NotContains(t, shown, id, what)
		require.NotContains(t, shown, ended, what)
	}
}
