package sqllease

import (
	"context"
	"unicode/utf8"

	"github.com/distributedleasing/leasing/abstractions"
)

// List returns a page of records in the order of their names' bytes. Names that
// were never held are not listed.
func (d *driver) List(ctx context.Context, req abstractions.ListRequest) (page abstractions.ListResult, err error) {
	if err := d.check(ctx); err != nil {
		return page, err
	}
	limit := req.PageLimit()
	found, err := d.backend.list(ctx, req, limit+1)
	if len(found) > limit {
		found = found[:limit]
		page.Next = found[limit-1].Name
	}
	for i := range found {
		page.Records = append(page.Records, found[i].Show())
	}
	return page, err
}

// after returns the first text that comes after all those that begin with
// prefix; nil if there is none. UTF-8 sorts like its code points do.
func after(prefix string) *string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch last {
		case utf8.MaxRune:
			continue // nothing comes after it; raise the one before
		case 0xD7FF:
			last = 0xE000 // over the surrogates, which UTF-8 doesn't have
		default:
			last++
		}
		prefix += string(last)
		return &prefix
	}
	return nil
}
