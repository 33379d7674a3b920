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

// mapStore is a store over a map, together with its Records.
type mapStore struct {
	cas.Records
	mu         sync.Mutex
	items      map[string]cas.Item
	puts       int
	overwrites bool                // Put replaces any version
	deletesAll bool                // Delete deletes any version
	wraps      bool                // Get reads the last token as 1
	repairs    bool                // Get replaces content that is not a record
	meaning    providerkit.Meaning // of every error
}

func (k *mapStore) Get(_ context.Context, key string) (cas.Item, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	item := k.items[key]
	if k.wraps {
		item.Data = bytes.Replace(item.Data, []byte(fmt.Sprint(abstractions.MaxToken)), []byte("1"), 1)
	}
	if k.repairs && item.Version != "" && !bytes.Contains(item.Data, []byte(`"v":1`)) {
		item.Data = fmt.Appendf(nil, `{"v":1,"name":%q,"token":7}`, key)
	}
	item.Key, item.Now = key, time.Now()
	return item, nil
}

func (k *mapStore) Put(_ context.Context, old cas.Item, _ *providerkit.Record, data []byte) (cas.Item, error) {
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

func (k *mapStore) List(context.Context, cas.ListQuery) ([]cas.Item, string, error) {
	return nil, "", abstractions.ErrUnsupported
}

func (k *mapStore) Delete(_ context.Context, item cas.Item) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.items[item.Key].Version != item.Version && !k.deletesAll {
		return cas.ErrConflict
	}
	delete(k.items, item.Key)
	return nil
}

// mapDriver is the driver. mapStore can't be the driver, since it has different methods
// with the same names.
type mapDriver struct{ *cas.Records }

func (mapDriver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{Provider: "map", MinTTL: 5 * time.Second, Granularity: time.Second, Clock: "the map's"}
}
func (mapDriver) Classify(error) providerkit.Meaning { return providerkit.Meaning{} }
func (mapDriver) Close() error                       { return nil }

type mapProvider struct {
	*providerkit.Provider
	k *mapStore
}

func onMap(flaw func(k *mapStore)) Harness {
	return Harness{
		Virtual: true,
		New: func(testing.TB) abstractions.Provider {
			k := &mapStore{items: map[string]cas.Item{}}
			flaw(k)
			k.Records = cas.Records{
				Store: k, Key: func(name string) string { return name }, ManualSweep: true, Expiry: &cas.Expiry{Resolution: time.Second},
				Classify: func(error) providerkit.Meaning { return k.meaning },
			}
			return mapProvider{providerkit.New(mapDriver{&k.Records}, providerkit.Config{Timeout: time.Second}), k}
		},
		Records: func(p abstractions.Provider) *cas.Records { return &p.(mapProvider).k.Records },
	}.withDefaults()
}

// storeFlaws maps the name of a check to a flaw of a store that the check must
// detect.
var storeFlaws = map[string]func(k *mapStore){
	"Records_AWriteReplacesWhatItHasRead":               func(k *mapStore) { k.overwrites = true },
	"Trap_T128_NoTokenFollowsTheLast":                   func(k *mapStore) { k.wraps = true },
	"Trap_T254_ARecordThatCannotBeReadIsRefusedAndKept": func(k *mapStore) { k.repairs = true },
	"Trap_T28_ADelayedDeletionMeetsNothingNew":          func(k *mapStore) { k.deletesAll = true },
	"Trap_T14_AWriteWhoseReplyIsLostIsLookedFor":        func(k *mapStore) { k.meaning.Class = providerkit.Refused },
}

func TestChecksDetectFlawsOfAStore(t *testing.T) {
	for name, flaw := range storeFlaws {
		failed, log := outcome(t, onMap(func(*mapStore) {}), checkNamed(t, name))
		assert.False(t, failed, "%s\n%s", name, log)
		failed, log = outcome(t, onMap(flaw), checkNamed(t, name))
		assert.True(t, failed, "%s\n%s", name, log)
	}
}
