package sqllease

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/distributedleasing/leasing/abstractions"
)

// List returns a page of records in the order of their names' bytes: see
// leasing.Lister. Names that were never held are not listed.
func (s *Store) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	var page abstractions.ListResult
	err := s.call(ctx, "list", "", func(ctx context.Context) error {
		if err := validatePrefix("Prefix", req.Prefix); err != nil {
			return err
		}
		if err := validatePrefix("After", req.After); err != nil {
			return err
		}
		limit := req.PageLimit()
		rows, err := s.backend.list(ctx, listQuery{prefix: req.Prefix, after: req.After, heldOnly: req.HeldOnly, limit: limit + 1})
		if len(rows) > limit {
			rows = rows[:limit]
			page.Next = rows[limit-1].name
		}
		for i := range rows {
			page.Records = append(page.Records, rows[i].record())
		}
		return err
	})
	return page, err
}

// validatePrefix refuses what no database text can be.
func validatePrefix(field, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return &abstractions.InvalidError{Field: field, Value: text, Want: "UTF-8 without NUL"}
	}
	return nil
}

// after returns the first text that comes after all those that begin with
// prefix, and whether there is one. UTF-8 sorts like its code points do.
func after(prefix string) (string, bool) {
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
		return prefix + string(last), true
	}
	return "", false
}
