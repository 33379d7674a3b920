package bloblease

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
)

func (p *Provider) inspect(ctx context.Context, name string) (abstractions.Record, error) {
	v, err := p.look(ctx, name)
	if err != nil {
		return abstractions.Record{}, err
	}
	return v.shown(name), nil
}

// shown is a view in the words of package leasing. Who holds the lease is certain:
// nobody takes it but under the record that names him. Only a lease that another
// program has taken is not, and one whose release is under way.
func (v view) shown(name string) abstractions.Record {
	r := abstractions.Record{Name: name, Token: v.record.Token, Now: v.now}
	if !v.locked() {
		return r
	}
	r.Held = true
	if r.Unconfirmed = v.unfinished() || v.record.ID == ""; r.Unconfirmed {
		return r
	}
	r.ID, r.Owner, r.TTL = v.record.ID, v.record.Owner, ttlOf(v.record.Seconds)
	r.Metadata = maps.Clone(v.record.Metadata)
	r.AcquiredAt = time.Unix(v.record.Since, 0).UTC()
	r.Breaking = v.lease == lease.StateTypeBreaking || v.record.Phase == breaking
	return r
}

// nobody is a blob that no name has: see encode.
const nobody = "~"

func (p *Provider) ping(ctx context.Context) error {
	_, err := p.store.container.NewBlobClient(p.store.naming.prefix+nobody).GetProperties(ctx, nil)
	err = failure(err)
	var homeless *containerError
	if isMissing(err) || errors.As(err, &homeless) && homeless.meaning != deleting && p.createContainer {
		return nil
	}
	return err
}
