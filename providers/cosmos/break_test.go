package cosmoslease

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// T63: the lease that an operator has read ends before the write of the break, and another
// lease may follow. The break does not change the next lease, even if the break names no
// token.
func TestTrap_T63_ABreakDoesNotGoOnToTheNextLease(t *testing.T) {
	for name, follow := range map[string]func(b *bed, g abstractions.Grant) abstractions.Grant{
		"another":         func(b *bed, g abstractions.Grant) abstractions.Grant { b.release(g); return b.acquire("n", "b") },
		"a later renewal": func(b *bed, g abstractions.Grant) abstractions.Grant { g, _ = b.renew(g); return g },
		"nobody":          func(b *bed, g abstractions.Grant) abstractions.Grant { b.release(g); return g },
	} {
		for _, immediate := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bed) {
					g := b.acquire("n", "a")
					operator := b.process()
					var last abstractions.Grant
					followed := false
					b.account.Before(func(op cosmostest.Operation) cosmostest.Fault {
						if op.Verb == cosmostest.ReplaceItem && !followed {
							followed = true
							last = follow(b, g)
						}
						return cosmostest.Fault{}
					})
					r, err := operator.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: immediate})
					_, lost := b.renew(last)
					switch name {
					case "another":
						requireUnknown(t, err)
						require.NoError(t, lost)
					case "nobody":
						require.NoError(t, err)
						require.Equal(t, abstractions.BreakResult{Token: g.Token}, r)
					default:
						require.NoError(t, err)
						require.True(t, r.WasHeld)
						requireLost(t, abstractions.LostBroken, lost)
					}
				})
			})
		}
	}
}
