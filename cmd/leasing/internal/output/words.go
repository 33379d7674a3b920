package output

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

// OneLine returns an error on one line, with this program's names for options.
func OneLine(err error) string {
	text := err.Error()
	replace := func(of error, by string) { text = strings.ReplaceAll(text, of.Error(), by) }
	if setup := (*sqllease.SetupError)(nil); errors.As(err, &setup) {
		short, _, _ := strings.Cut(setup.Error(), "; run this as") // the statements have many lines
		replace(setup, short+`; see "leasing sql schema"`)
	}
	if advised := (*providerkit.AdvisedError)(nil); errors.As(err, &advised) {
		replace(advised, advised.Err.Error()+"; "+adviceReplacer.Replace(advised.Advice))
	}
	if invalid := (*leasing.InvalidError)(nil); errors.As(err, &invalid) {
		own := *invalid
		own.Field = optionName(invalid.Field)
		own.Want, _, _ = strings.Cut(own.Want, "; or set ") // an option that this program does not have
		own.Want, _, _ = strings.Cut(own.Want, ", or in Go ")
		text := own.Error()
		if own.Field == "Options" { // the names of the options follow
			text = strings.Replace(fieldName.ReplaceAllStringFunc(text, snakeCase), "options", "URL", 1)
		}
		replace(invalid, text)
	}
	return joinLines(strings.ReplaceAll(text, "Provider.Bootstrap", `"leasing bootstrap"`))
}

// joinLines joins the lines of an error into one line without repetitions: joined errors, or attempts of a client
// library, may all say the same. It leaves out this program's name, which is printed before the line. The result has the
// text of ErrUnavailable only once, even if several servers or requests had no answer.
func joinLines(text string) string {
	var b strings.Builder
	var seen []string
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		line = strings.ReplaceAll(strings.TrimPrefix(line, "leasing: "), ": leasing: ", ": ")
		if line == "" || slices.ContainsFunc(seen, func(earlier string) bool { return strings.HasSuffix(earlier, line) }) {
			continue
		}
		if before := b.String(); strings.HasSuffix(before, ":") || strings.HasSuffix(before, "?") {
			b.WriteString(" ")
		} else if before != "" {
			b.WriteString("; ")
		}
		b.WriteString(line)
		seen = append(seen, line)
	}
	text = b.String()
	unavailable := leasing.ErrUnavailable.Error() + ": "
	if before, after, found := strings.Cut(text, unavailable); found {
		text = before + unavailable + strings.ReplaceAll(after, unavailable, "")
	}
	return text
}

// adviceReplacer replaces the Go names in advice.
var adviceReplacer = strings.NewReplacer(
	"call Migrate, or set Options.Create", `see "leasing sql schema", or add create=true to the URL`,
	"check the URL, Schema and Table", "check the URL, with schema and table",
	"set Options.Create", "add create=true to the URL",
	"use Options.Auth", "add auth=MODE to the URL",
)

// fieldName matches the name of a field of the Go options.
var fieldName = regexp.MustCompile(`\b[A-Z]\w+`)

// flagNames are the flags that stand for options of the library.
var flagNames = map[string]string{
	"Options.TTL": "--ttl", "AcquireOptions.TTL": "--ttl", "AcquireOptions.WaitLimit": "--wait", "AcquireOptions.AtLeast": "--at-least",
	"Options.Owner": "--owner", "Options.Tuning.RequestTimeout": "--timeout", "BreakOptions.IfToken": "--if-token",
	"BreakOptions.Actor": "--actor", "BreakOptions.Reason": "--reason", "Options.URL": "URL",
}

// optionName returns the name of a flag, or of a parameter of the URL.
func optionName(field string) string {
	if flag, ok := flagNames[field]; ok {
		return flag
	}
	name, ok := strings.CutPrefix(field, "Options.")
	if !ok {
		return field
	}
	name = strings.TrimPrefix(name, "URL ") // as in: Options.URL parameter "x"
	if !unicode.IsUpper(rune(name[0])) {
		return "URL " + name
	}
	return fmt.Sprintf("URL parameter %q", snakeCase(name))
}

// snakeCase converts a Go name to the name of a URL parameter, such as MaxTTL to max_ttl.
func snakeCase(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
