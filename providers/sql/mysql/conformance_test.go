package mysqllease

import (
	"sync"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

func TestConformance_mariadb(t *testing.T) {
	for how, parameters := range map[string][]string{"plain": nil, "history": {"history=true", "history_renewals=true"}} {
		t.Run(how, func(t *testing.T) {
			if how == "plain" {
				servertest.Long(t)
			}
			server := mariadbURL(t) // fails here rather than in each check
			var beds sync.Map       // by provider
			of := func(p abstractions.Provider) *bed { b, _ := beds.Load(p); return b.(*bed) }
			remove := func(t testing.TB, p abstractions.Provider, name string) {
				of(p).exec(t, "DELETE FROM lease WHERE name = ?", name)
			}
			providertest.Run(t, providertest.Harness{
				New: func(t testing.TB) abstractions.Provider {
					b := newBed(t, server)
					p := b.open(t, parameters...)
					beds.Store(p, b)
					return p
				},
				Peer: func(t testing.TB, p abstractions.Provider) abstractions.Provider { return of(p).open(t, parameters...) },
				Forget: func(t testing.TB, p abstractions.Provider, name string) {
					sweeper := of(p).open(t, append([]string{"retention=1ms"}, parameters...)...)
					for {
						_, err := sweeper.Sweep(bounded(t))
						require.NoError(t, err)
						record, err := p.Inspect(bounded(t), abstractions.InspectRequest{Name: name})
						require.NoError(t, err)
						if record.Token == 0 {
							return
						}
					}
				},
				Remove: remove,
				Ahead: func(t testing.TB, p abstractions.Provider, name string) {
					of(p).exec(t, "UPDATE lease SET token = token + 3600000000, version = version + 1 WHERE name = ?", name)
				},
				Remembers:   64,
				Unreachable: silentProvider,
			})
		})
	}
}
