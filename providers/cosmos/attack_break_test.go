package cosmoslease

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// freeAt is the result of a break: at some time between two instants the name had no holder or, if
// id is set, a different holder.
type freeAt struct {
	id       string
	from, to time.Time
}

// breakOne breaks a claim. The claim is still trusted, unless the break is immediate.
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

// settled is the time for which a document is unchanged before its deletion. By then, no
// caller still waits for an acquire with an earlier token.
const settled = attackTimeout + 3*time.Second

// forget deletes the document after a shorter wait than the documentation requires.
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
