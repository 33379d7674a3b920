package cosmoslease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// Close does not wait for a silent service, whichever request is in flight.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	for _, verb := range []cosmostest.Verb{cosmostest.ReadAccount, cosmostest.ReadContainer, cosmostest.ReadItem, cosmostest.CreateItem} {
		inBubble(t, func(t *testing.T, b *bed) {
			b.account.Before(faultOn(verb, cosmostest.Fault{Delay: time.Hour}))
			ended := make(chan error, 1)
			go func() {
				_, err := b.try("n", "a")
				ended <- err
			}()
			synctest.Wait()
			began := time.Now()
			require.NoError(t, b.Close())
			requireUnknown(t, <-ended)
			require.Zero(t, time.Since(began), verb)
			_, err := b.try("n", "a")
			require.ErrorIs(t, err, abstractions.ErrClosed)
		})
	}
}
