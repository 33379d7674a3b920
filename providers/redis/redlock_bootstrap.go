package redislease

import (
	"context"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
)

// bootstrap lets new servers vote at once, if all of them answer and all are new.
func (r *redlock) bootstrap(ctx context.Context) error {
	all, err := r.askMembers(ctx, lookAtServer)
	if err != nil {
		return err
	}
	var used []string
	for i, a := range all {
		if !a.isNew {
			used = append(used, r.peers[i].label)
		}
	}
	switch len(used) {
	case 0:
		_, err = r.askMembers(ctx, bootstrapServer)
		return err
	case len(all):
		return nil
	}
	return &abstractions.InvalidError{Field: "Options", Value: "with " + strings.Join(used, ", ") + " in use", Want: "servers that are all new: the others may have lost leases, and vote in a while"}
}
