package operations

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

// section returns the text of a chapter of the runbook.
func section(t *testing.T, title string) string {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n## "+title+"\n")
	require.True(t, found)
	within, _, _ := strings.Cut(after, "\n## ")
	return within
}

// The runbook has each alert of the rules, and no other.
func TestTheRunbookHasEachAlert(t *testing.T) {
	text, err := os.ReadFile(rules)
	require.NoError(t, err)
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(text), -1)
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(section(t, "Runbook"), -1)
	require.NotEmpty(t, alerts)
	require.Len(t, rows, len(alerts))
	for i := range alerts {
		require.Equal(t, alerts[i][1], rows[i][1], "in the order of the rules")
	}
}

// Each text that the runbook explains is that of an error of the code, which matches the
// one that it names; and none is left out.
func TestTheRunbookHasEachError(t *testing.T) {
	classes := map[string]error{
		"ErrHeld": leasing.ErrHeld, "ErrLost": leasing.ErrLost, "ErrReleased": leasing.ErrReleased, "ErrUnavailable": leasing.ErrUnavailable,
		"ErrThrottled": leasing.ErrThrottled, "ErrDenied": leasing.ErrDenied, "ErrNotSetUp": leasing.ErrNotSetUp, "ErrInvalid": leasing.ErrInvalid,
		"ErrStale": leasing.ErrStale, "ErrUnsupported": leasing.ErrUnsupported, "ErrClosed": leasing.ErrClosed,
	}
	all := []error{
		&leasing.HeldError{Holder: leasing.Record{Held: true}}, &leasing.HeldError{}, &leasing.HeldError{Holder: leasing.Record{Held: true}, ByThisManager: true},
		&leasing.InvalidError{Field: "Options.TTL", Value: 0, Want: "more"},
	}
	for _, reason := range []leasing.LostReason{
		leasing.LostExpired, leasing.LostTaken, leasing.LostBroken, leasing.LostGone, leasing.LostRenewalLimit, leasing.LostClosed,
	} {
		all = append(all, &leasing.LostError{Reason: reason})
	}
	for _, class := range classes {
		if !slices.ContainsFunc(all, func(err error) bool { return errors.Is(err, class) }) {
			all = append(all, class)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| (`.*?) \\| `(\\w+)` \\|").FindAllStringSubmatch(section(t, "Errors"), -1)
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, row := range rows {
		for _, text := range quoted.FindAllStringSubmatch(row[1], -1) {
			pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text[1]), `\.\.\.`, ".+") + "$")
			i := slices.IndexFunc(all, func(err error) bool { return pattern.MatchString(err.Error()) })
			require.GreaterOrEqual(t, i, 0, text[1])
			require.ErrorIs(t, all[i], classes[row[2]])
			all = slices.Delete(all, i, i+1)
		}
	}
	require.Empty(t, all)
}
