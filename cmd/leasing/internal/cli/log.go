package cli

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// Handler prints the log records of the manager as lines for people.
type Handler struct{ App *App }

func (h Handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (h Handler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h Handler) WithGroup(string) slog.Handler      { return h }

// Handle prints a record. If the record has an error, Handle prints only the error, which names the failed
// operation and the lease.
func (h Handler) Handle(_ context.Context, r slog.Record) error {
	text, detail := strings.TrimPrefix(r.Message, "leasing: "), ""
	r.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "error":
			text, detail = output.OneLine(errors.New(attr.Value.String())), ""
			return false
		case "name":
			detail = ": " + attr.Value.String()
		}
		return true
	})
	h.App.Warn("%s", text+detail)
	return nil
}
