package cosmostest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

func TestKeysAreChecked(t *testing.T) {
	for _, test := range []struct {
		name   string
		key    string
		ahead  time.Duration // ahead of the client's clock
		status int
	}{
		{"the key", key, 0, 404}, {"off by minutes", key, 14 * time.Minute, 404}, {"off by more", key, 16 * time.Minute, 403},
		{"behind", key, -16 * time.Minute, 403}, {"another key", "b3RoZXI=", 0, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := func() time.Time { return time.Now().Add(test.ahead) }
			inBubble(t, cosmostest.Options{Now: now}, "/id", func(t *testing.T, c *client) {
				pipe := cosmostest.NewPipe(c.account)
				defer pipe.Close()
				transport := pipe.Transport()
				defer transport.CloseIdleConnections()
				_, err := newClient(t, c.account, transport, test.key).read("x", nil)
				requireStatus(t, err, test.status, "")
			})
		})
	}
}

// tokens is a credential that always has the same token.
type tokens string

func (s tokens) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(s), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func TestTokensAreCheckedAndMayNotCreateContainers(t *testing.T) {
	check := func(token string) error {
		if token != "good" {
			return errors.New("bad")
		}
		return nil
	}
	for token, status := range map[tokens]int{"good": 404, "bad": 401} {
		inBubble(t, cosmostest.Options{Token: check}, "/id", func(t *testing.T, c *client) {
			pipe := cosmostest.NewPipe(c.account)
			defer pipe.Close()
			transport := pipe.Transport()
			defer transport.CloseIdleConnections()
			whole, err := azcosmos.NewClient(cosmostest.PipeURL, token, options(transport))
			require.NoError(t, err)
			container, err := whole.NewContainer("db", "c")
			require.NoError(t, err)
			_, err = container.ReadItem(t.Context(), azcosmos.NewPartitionKeyString("x"), "x", nil)
			requireStatus(t, err, status, "")
			if token == "good" {
				_, err = whole.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "new"}, nil)
				requireStatus(t, err, 403, "5300")
			}
		})
	}
}

func TestContainersHaveThroughputAndTimeToLive(t *testing.T) {
	inBubble(t, cosmostest.Options{}, "/id", func(t *testing.T, c *client) {
		database, err := c.all.NewDatabase("new")
		require.NoError(t, err)
		ttl := int32(-1)
		properties := azcosmos.ContainerProperties{
			ID: "c", DefaultTimeToLive: &ttl, PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
		}
		throughput := azcosmos.NewManualThroughputProperties(400)
		create := func() error {
			_, err := database.CreateContainer(t.Context(), properties, &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput})
			return err
		}
		requireStatus(t, create(), 404, "1003")
		_, err = c.all.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "new"}, nil)
		require.NoError(t, err)
		_, err = c.all.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "new"}, nil)
		requireStatus(t, err, 409, "")
		require.NoError(t, create())
		requireStatus(t, create(), 409, "")
		container, err := database.NewContainer("c")
		require.NoError(t, err)
		read, err := container.Read(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, []string{"/pk"}, read.ContainerProperties.PartitionKeyDefinition.Paths)
		require.EqualValues(t, -1, *read.ContainerProperties.DefaultTimeToLive)
		_, asked := c.account.Container("new", "c")
		require.Equal(t, "400", asked)
	})
}
