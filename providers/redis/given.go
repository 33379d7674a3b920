package redislease

import (
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
)

// given are the clients of the user's own.
func (o Options) given() []redis.UniversalClient {
	if o.Client != nil {
		return []redis.UniversalClient{o.Client}
	}
	return o.Clients
}

// modeOfClients is the mode of clients of the user's own, which is refused where
// Options.Mode says another.
func (o Options) modeOfClients(field string) (Mode, error) {
	mode := Redlock
	var err error
	if field == "Client" {
		mode, err = modeOfClient(o.Client)
	} else {
		err = independent(o.Clients)
	}
	if err != nil {
		return "", err
	}
	if o.Mode == "" || o.Mode == mode || o.Mode == Sentinel && mode == Single {
		return mode, nil
	}
	return "", invalid("Mode", string(o.Mode), fmt.Sprintf("%s, which Options.%s is; or nothing", mode, field))
}

// modeOfClient accepts the kinds of clients that send all requests for a name to
// one master. A Ring moves names to another server when one does not answer.
func modeOfClient(client redis.UniversalClient) (Mode, error) {
	switch c := client.(type) {
	case *redis.Client:
		if c != nil {
			return Single, nil
		}
	case *redis.ClusterClient:
		if c != nil {
			return Cluster, nil
		}
	}
	return "", invalid("Client", fmt.Sprintf("%T", client), "a *redis.Client or *redis.ClusterClient")
}

// independent refuses clients that are no Redlock. One of sentinels is not: a
// replica that takes over has lost writes, and would vote.
func independent(clients []redis.UniversalClient) error {
	if err := odd("Options.Clients", len(clients)); err != nil {
		return err
	}
	addrs := make([]string, len(clients))
	for i, client := range clients {
		field := fmt.Sprintf("Options.Clients[%d]", i)
		c, ok := client.(*redis.Client)
		if !ok || c == nil {
			return &abstractions.InvalidError{Field: field, Value: fmt.Sprintf("%T", client), Want: "a *redis.Client of one server"}
		}
		if addrs[i] = c.Options().Addr; addrs[i] == failoverAddr {
			return &abstractions.InvalidError{Field: field, Value: "a client of sentinels", Want: "a *redis.Client of one server: a replica that takes over would vote without knowing all"}
		}
	}
	return distinct("Options.Clients", addrs)
}

// failoverAddr is what redis.NewFailoverClient has for an address.
const failoverAddr = "FailoverClient"
