package cosmostest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// firstWrite is a hook that applies a fault to the first write.
func firstWrite(fault cosmostest.Fault) cosmostest.Hook {
	var spent atomic.Bool
	return func(op cosmostest.Operation) cosmostest.Fault {
		if !op.Write() || spent.Swap(true) {
			return cosmostest.Fault{}
		}
		return fault
	}
}

func TestHooksDecideBeforeAndAfterAnOperationIsApplied(t *testing.T) {
	for _, test := range []struct {
		name    string
		fault   cosmostest.Fault
		status  int // 0: no answer
		applied bool
	}{
		{"refused", cosmostest.Fault{Status: 503}, 503, false},
		{"refused, but applied", cosmostest.Fault{Status: 503, Applied: true}, 503, true},
		{"with substatus", cosmostest.Fault{Status: 429, Substatus: 3200, RetryAfter: 1500 * time.Millisecond}, 429, false},
		{"dropped", cosmostest.Fault{Drop: true}, 0, false},
		{"reply dropped", cosmostest.Fault{Drop: true, Applied: true}, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, cosmostest.Options{}, "/id", func(t *testing.T, c *client) {
				c.account.Before(firstWrite(test.fault))
				_, err := c.tryCreate("x", "")
				require.Error(t, err)
				if test.status != 0 {
					substatus := ""
					if test.fault.Substatus != 0 {
						substatus = "3200"
						require.ErrorContains(t, err, "429")
					}
					requireStatus(t, err, test.status, substatus)
				}
				_, err = c.read("x", nil)
				if test.applied {
					require.NoError(t, err)
				} else {
					requireStatus(t, err, 404, "")
				}
			})
		})
	}
}

func TestDelaysAreOnTheWayThereOrBack(t *testing.T) {
	for name, test := range map[string]struct {
		fault   cosmostest.Fault
		applied bool
	}{
		"there, and given up": {cosmostest.Fault{Delay: time.Minute}, false},
		"there, and late":     {cosmostest.Fault{Delay: time.Minute, Late: true}, true},
		"back":                {cosmostest.Fault{DelayReply: time.Minute}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, cosmostest.Options{}, "/id", func(t *testing.T, c *client) {
				c.account.Before(firstWrite(test.fault))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := c.CreateItem(ctx, azcosmos.NewPartitionKeyString("x"), []byte(`{"id": "x"}`), nil)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				_, err = c.read("x", nil)
				require.Equal(t, test.fault.DelayReply > 0, err == nil, "at once")
				time.Sleep(2 * time.Minute)
				_, err = c.read("x", nil)
				require.Equal(t, test.applied, err == nil, "later")
			})
		})
	}
}

func TestServedOperationsAreRecorded(t *testing.T) {
	inBubble(t, cosmostest.Options{}, "/id", func(t *testing.T, c *client) {
		c.create("x", "")
		require.Empty(t, c.account.Served())
		c.account.Record()
		_, err := c.read("x", nil)
		require.NoError(t, err)
		served := c.account.Served()
		require.Len(t, served, 1)
		require.Equal(t, cosmostest.ReadItem, served[0].Verb)
		require.Equal(t, "x", served[0].ID)
		require.False(t, served[0].Write())
	})
}
