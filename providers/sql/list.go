package sqllease

import (
	"context"
	"strings"
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

// beyond comes after all names that begin with a prefix: it is longer than a name can be, of the last code point that there is.
// UTF-8 sorts like its code points do.
func beyond(prefix string) string {
	return prefix + strings.Repeat(string(utf8.MaxRune), abstractions.MaxNameBytes/utf8.UTFMax+1)
}
