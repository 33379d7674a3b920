package providertest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
)

// kept is a provider of cas.Records over a map.
type kept struct {
	cas.Records
	mu         sync.Mutex
	items      map[string]cas.Item
	puts       int
	overwrites bool                // Put replaces any version
	deletesAll bool                // Delete deletes any version
	wraps      bool                // Get reads the last token as 1
	mends      bool                // Get replaces content that is not a record
	meaning    providerkit.Meaning // of every error
}

func (k *kept) Get(_ context.Context, key string) (cas.Item, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	item := k.items[key]
	if k.wraps {
		item.Data = bytes.Replace(item.Data, []byte(fmt.Sprint(abstractions.MaxToken)), []byte("1"), 1)
	}
	if k.mends && item.Version != "" && !bytes.Contains(item.Data, []byte(`"v":1`)) {
		item.Data = fmt.Appendf(nil, `{"v":1,"name":%q,"token":7}`, key)
	}
	item.Key, item.Now = key, time.Now()
	return item, nil
}

func (k *kept) Put(_ context.Context, old cas.Item, _ *providerkit.Record, data []byte) (cas.Item, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.items[old.Key].Version != old.Version && !k.overwrites {
		return old, cas.ErrConflict
	}
	k.puts++
	item := cas.Item{Key: old.Key, Data: data, Version: fmt.Sprint(k.puts), Written: time.Now(), Now: time.Now()}
	k.items[old.Key] = item
	return item, nil
}

func (k *kept) List(context.Context, cas.ListQuery) ([]cas.Item, string, error) {
	return nil, "", abstractions.ErrUnsupported
}

func (k *kept) Delete(_ context.Context, item cas.Item) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.items[item.Key].Version != item.Version && !k.deletesAll {
		return cas.ErrConflict
	}
	delete(k.items, item.Key)
	return nil
}

// keeper is the driver. kept can't be the driver, since it has other methods of
// the same names.
type keeper struct{ *cas.Records }

func (keeper) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{Provider: "kept", MinTTL: 5 * time.Second, Granularity: time.Second, Clock: "the map's"}
}
func (keeper) Classify(error) providerkit.Meaning { return providerkit.Meaning{} }
func (keeper) Close() error                       { return nil }

type keeping struct {
	*providerkit.Provider
	k *kept
}

func keeps(flaw func(k *kept)) Harness {
	return Harness{
		Virtual: true,
		New: func(testing.TB) abstractions.Provider {
			k := &kept{items: map[string]cas.Item{}}
			flaw(k)
			k.Records = cas.Records{
				Store: k, Key: func(name string) string { return name }, ManualSweep: true, Expiry: &cas.Expiry{Resolution: time.Second},
				Classify: func(error) providerkit.Meaning { return k.meaning },
			}
			return keeping{providerkit.New(keeper{&k.Records}, providerkit.Config{Timeout: time.Second}), k}
		},
		Records: func(p abstractions.Provider) *cas.Records { return &p.(keeping).k.Records },
	}.withDefaults()
}

// storeFlaws maps the name of a check to a flaw of a store that the check must
// detect.
var storeFlaws = map[string]func(k *kept){
	"Records_AWriteReplacesWhatItHasRead":               func(k *kept) { k.overwrites = true },
	"Trap_T128_NoTokenFollowsTheLast":                   func(k *kept) { k.wraps = true },
	"Trap_T254_ARecordThatCannotBeReadIsRefusedAndKept": func(k *kept) { k.mends = true },
	"Trap_T28_ADelayedDeletionMeetsNothingNew":          func(k *kept) { k.deletesAll = true },
	"Trap_T14_AWriteWhoseReplyIsLostIsLookedFor":        func(k *kept) { k.meaning.Class = providerkit.Refused },
}

func TestChecksDetectFlawsOfAStore(t *testing.T) {
	for name, flaw := range storeFlaws {
		failed, log := outcome(t, keeps(func(*kept) {}), checkNamed(t, name))
		assert.False(t, failed, "%s\n%s", name, log)
		failed, log = outcome(t, keeps(flaw), checkNamed(t, name))
		assert.True(t, failed, "%s\n%s", name, log)
	}
}
