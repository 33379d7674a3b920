package main

import (
	"context"
	"fmt"
)

// see takes a report in.
func (p *play) see(r report) error {
	switch r.Kind {
	case acquired:
		if r.Token <= p.latest().Token {
			return fmt.Errorf("%s has the lease with token %d, which is not above the one before it", r.Worker, r.Token)
		}
		p.terms = append(p.terms, r)
	case did:
		p.items[r.Token]++
	case waiting:
		if r.Holder != nil {
			if p.shown[r.Worker] == nil {
				p.shown[r.Worker] = map[int64]bool{}
			}
			p.shown[r.Worker][r.Holder.Token] = true
			return p.check(r)
		}
	case exited:
		if inOrder := r.Text == "exit status 0"; inOrder == (r.Worker == p.killed) {
			return fmt.Errorf("%s has ended: %s", r.Worker, r.Text)
		}
	}
	return nil
}

// check holds what a loser shows against what the holder has said of itself.
func (p *play) check(r report) error {
	for _, term := range p.terms {
		if term.Token != r.Holder.Token {
			continue
		}
		if term.Worker != r.Holder.Owner || r.Holder.Metadata["pid"] == "" {
			return fmt.Errorf("%s shows that %s; that is the token of %s", r.Worker, r.Holder.line(), term.Worker)
		}
		if p.backend.RemainingKnown && (r.Holder.Left == nil || *r.Holder.Left > p.ttl+p.backend.Lateness.After(p.ttl)) {
			return fmt.Errorf("%s shows that %s; it was granted for %v", r.Worker, r.Holder.line(), p.ttl)
		}
	}
	return nil
}

// othersShow says whether all who wait have shown the latest holder.
func (p *play) othersShow() bool {
	for name := range p.running {
		if name != p.latest().Worker && !p.shown[name][p.latest().Token] {
			return false
		}
	}
	return true
}

// judge checks the whole play.
func (p *play) judge(ctx context.Context) error {
	p.passed("the lease had %d holders, one after the other; each had a higher fencing token than all before it", len(p.terms))
	p.passed("those who waited showed the holder: its name, its token, its metadata")
	rows, err := p.rows(ctx)
	if err != nil {
		return err
	}
	p.passed("%d items were done, each once, by whoever had the lease; the ledger checked each token", rows)
	p.passed("the killed worker's lease ran out by itself; the others gave theirs up, and ended with exit status 0")
	return nil
}

func (p *play) passed(format string, args ...any) {
	fmt.Fprintf(p.out, "ok  %s\n", fmt.Sprintf(format, args...))
}

// rows checks the ledger: numbers without a gap, tokens that never fall, each
// that of its writer.
func (p *play) rows(ctx context.Context) (int, error) {
	book, err := openLedger(ctx, p.Ledger)
	if err != nil {
		return 0, err
	}
	defer book.close()
	all, err := book.rows(ctx, p.Name)
	if err != nil {
		return 0, err
	}
	writer := map[int64]string{}
	for _, term := range p.terms {
		writer[term.Token] = term.Worker
	}
	last := int64(0)
	for i, r := range all {
		if r.number != int64(i)+1 || r.token < last || writer[r.token] != r.worker {
			return 0, fmt.Errorf("item %d of the ledger, by %s with token %d, is out of order", r.number, r.worker, r.token)
		}
		last = r.token
	}
	return len(all), nil
}
