package torture

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
)

// listing finds holders whose names the backend does not list once, and names that it should not
// list, or lists twice.
func (n *named) listing() {
	for _, s := range n.sights {
		switch {
		case !s.Listed:
		case s.Strange != "":
			n.violated(s.Return, "a list shows %s", s.Strange)
		case s.Trusted && s.Holder == s.Claim && len(n.breaks) == 0 && !n.Votes && (s.AsHeld != 1 || s.AsName != 1):
			n.violated(s.Return, "the name of claim %s is listed %d times among those that are held, and %d times by itself", s.Claim, s.AsHeld, s.AsName)
		}
	}
}

// list looks for the name of a lease in lists of the backend, unless the backend cannot list names.
func (w *worker) list(ctx context.Context, one *sight) {
	lister, ok := abstractions.As[abstractions.Lister](w.below)
	if !ok {
		return
	}
	all := one.Name[:strings.LastIndex(one.Name, "/")+1]
	var strange, more string
	var errs [2]error
	one.AsHeld, strange, errs[0] = w.count(ctx, lister, one.Name, abstractions.ListRequest{Prefix: all, HeldOnly: true, Limit: 1})
	one.AsName, more, errs[1] = w.count(ctx, lister, one.Name, abstractions.ListRequest{Prefix: one.Name})
	one.Strange, one.Listed = cmp.Or(strange, more), errs[0] == nil && errs[1] == nil
}

// count returns how often a name occurs in all pages of a list, and describes a record that should not be listed.
func (w *worker) count(ctx context.Context, lister abstractions.Lister, name string, req abstractions.ListRequest) (times int, strange string, err error) {
	var seen []string
	for first := true; first || req.After != ""; first = false {
		page, err := lister.List(ctx, req)
		if err != nil {
			return 0, "", err
		}
		for _, record := range page.Records {
			switch {
			case !strings.HasPrefix(record.Name, req.Prefix):
				strange = record.Name + ", which was not asked for"
			case req.HeldOnly && !record.Held:
				strange = record.Name + " as held, which it is not"
			case !w.options.Votes && record.Name != name && slices.Contains(seen, record.Name):
				strange = record.Name + " twice"
			}
			if record.Name == name {
				times++
			}
			seen = append(seen, record.Name)
		}
		req.After = page.Next
	}
	return times, strange, nil
}
