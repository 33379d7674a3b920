package bloblease

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
)

func (d *driver) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	v, err := d.look(ctx, req.Name)
	if err != nil {
		return abstractions.Record{}, err
	}
	return v.shown(req.Name), nil
}

// shown is a view in the words of package leasing. Who holds the lease is certain:
// nobody takes it but under the record that names him. Only a lease that another
// program has taken is not, and one whose release is under way.
func (v view) shown(name string) abstractions.Record {
	if v.locked() && v.record.ID == "" {
		return abstractions.Record{Name: name, Token: v.record.Token, Now: v.now, Held: true, Unconfirmed: true}
	}
	shown := v.rules(name, "").Show()
	shown.Breaking = shown.Breaking || v.lease == lease.StateTypeBreaking
	shown.ExpiresAt = time.Time{} // the service does not tell
	return shown
}

// pingBlob is a blob that no name has: see providerkit.Naming.
const pingBlob = "~"

// Ping asks whether the service answers, knows the container and lets us read.
func (d *driver) Ping(ctx context.Context) error {
	_, err := d.store.container.NewBlobClient(d.store.naming.Prefix+pingBlob).GetProperties(ctx, nil)
	if isMissing(err) || d.willCreate(err) {
		return nil
	}
	return err
}
