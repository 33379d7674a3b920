package cosmoslease

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// freeAt is a break's word that nobody held the name at some time between two
// instants, or not by that ID if there is one.
type freeAt struct {
	id       string
	from, to time.Time
}

// breakOne breaks a claim that is trusted, unless it is broken at once.
func (a *attack) breakOne(g abstractions.Grant, immediate bool) {
	ctx, cancel := context.WithTimeout(a.t.Context(), attackTimeout)
	defer cancel()
	began := time.Now()
	r, err := a.bed.process(a.options).Break(ctx, abstractions.BreakRequest{Name: a.name, IfToken: g.Token, Immediate: immediate})
	if errors.Is(err, abstractions.ErrStale) || err == nil && !r.WasHeld {
		a.note(freeAt{g.ID, began, time.Now()})
	}
}

func (a *attack) breakAny() {
	ctx, cancel := context.WithTimeout(a.t.Context(), attackTimeout)
	defer cancel()
	began := time.Now()
	r, err := a.bed.process(a.options).Break(ctx, abstractions.BreakRequest{Name: a.name})
	require.NotErrorIs(a.t, err, abstractions.ErrStale)
	if err == nil && !r.WasHeld {
		a.note(freeAt{"", began, time.Now()})
	}
}

func (a *attack) note(f freeAt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = append(a.free, f)
}

// settled is for how long a document is left alone before somebody deletes it: no
// acquire is still on its way, with a token of before, whose caller waits for it.
const settled = attackTimeout + 3*time.Second

// forget deletes the document as nobody should: without waiting for long.
func (a *attack) forget(p *Provider) {
	ctx, cancel := context.WithTimeout(a.t.Context(), attackTimeout)
	defer cancel()
	item, err := p.driver.store.Get(ctx, a.name)
	if err != nil || item.Version == "" {
		return
	}
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: a.name})
	if err != nil || record.Held || record.Token > item.Now.Add(-settled).UnixMicro() {
		return
	}
	a.mu.Lock()
	a.deleted = true
	a.mu.Unlock()
	_ = p.driver.store.Delete(ctx, item)
}
