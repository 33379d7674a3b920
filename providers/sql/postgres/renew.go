package postgreslease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

var errRowChanged = fmt.Errorf("%w: the row changed while it was read, or the batch has two requests of the claim", abstractions.ErrUnavailable)

// renewItem is one claim in the argument of renew.sql.
type renewItem struct {
	N        int             `json:"n"`
	Name     string          `json:"name"`
	ID       string          `json:"id"`
	Token    int64           `json:"token"`
	TTL      *int64          `json:"ttl_us"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Renew runs one statement: renew.sql.
func (p *postgres) Renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) ([]abstractions.RenewResult, error) {
	items := make([]renewItem, len(reqs))
	for i := range reqs {
		req := &reqs[i]
		items[i] = renewItem{N: i, Name: req.Name, ID: req.ID, Token: req.Token, TTL: dialect.Micros(req.TTL)}
		if req.Metadata != nil {
			items[i].Metadata = json.RawMessage(dialect.EncodeMetadata(req.Metadata))
		}
	}
	list, err := json.Marshal(items)
	if err != nil {
		return nil, err
	}
	statement := p.SQL["renew_now"]
	if wait {
		statement = p.SQL["renew"]
	}
	results := make([]abstractions.RenewResult, len(reqs))
	err = p.db.Query(ctx, statement, []any{string(list), p.Record.Renewals}, func(scan dialect.Scan) error {
		var n int
		var renewed, known bool
		var found dialect.Row
		if err := scan(append([]any{&n, &renewed, &known}, pgColumns(&found)...)...); err != nil {
			return err
		}
		if n < 0 || n >= len(results) {
			return errors.New("postgreslease: an answer to no request")
		}
		req, result := &reqs[n], &results[n]
		switch {
		case renewed:
			now := time.UnixMicro(found.Began).UTC()
			result.Grant = dialect.Grant(&providerkit.Record{Name: req.Name, ID: req.ID, Token: req.Token, Left: req.TTL, Now: now}, req.TTL)
		case !known:
			result.Err = fmt.Errorf("%w: another transaction has the row locked", abstractions.ErrUnavailable)
		default:
			found.Name = req.Name
			found.Settle(req.ID)
			result.Err = cmp.Or(found.Renew(*req).Err, errRowChanged)
		}
		return nil
	})
	if err != nil { // nothing was committed, or the outcome is unknown
		return nil, err
	}
	return results, nil
}
