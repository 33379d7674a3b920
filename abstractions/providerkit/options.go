package providerkit

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// DefaultTimeout bounds a call whose context has no deadline, unless the options say
// otherwise.
const DefaultTimeout = 10 * time.Second

const (
	maxTimeout = time.Hour
	// maxRetention keeps instants within the range of Go's durations.
	maxRetention = 10 * 365 * 24 * time.Hour
)

type field struct {
	name  string // in Go
	key   string // in JSON and URLs; "" if only Go sets it
	value reflect.Value
	tag   map[string]string
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	presets      = map[string]string{
		"timeout":   fmt.Sprintf("default=%v,min=1ms,max=%v", DefaultTimeout, maxTimeout),
		"retention": fmt.Sprintf("default=%v,min=1ms,max=%v,forever", DefaultRetention, maxRetention),
	}
)

// fieldsOf returns the fields of a struct, or of the struct that a pointer points to.
func fieldsOf(options any) []field {
	v := reflect.Indirect(reflect.ValueOf(options))
	var fields []field
	for f, value := range v.Fields() {
		if f.IsExported() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			tag := map[string]string{}
			readTag(tag, f.Tag.Get("option"))
			fields = append(fields, field{f.Name, strings.Trim(key, "-"), value, tag})
		}
	}
	return fields
}

func readTag(tag map[string]string, text string) {
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if preset, ok := presets[name]; ok {
			readTag(tag, preset)
			continue
		}
		tag[name] = value
	}
}

func (f field) has(word string) bool { _, ok := f.tag[word]; return ok }

func (f field) secret() bool { return f.has("secret") || f.value.Type() == reflect.TypeFor[Secret]() }

// inQuery reports whether the query of a URL may set the field.
func (f field) inQuery() bool { return !f.secret() && f.name != "URL" }

// set reads a value from text. For invalid text it returns a description of valid values.
func (f field) set(text string) (want string) {
	v, err := f.value, error(nil)
	u, readsItself := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case readsItself:
		want, err = "another value", u.UnmarshalText([]byte(text))
		if named := (*abstractions.InvalidError)(nil); errors.As(err, &named) {
			want = named.Want
		}
	case v.Type() == durationType:
		d := abstractions.Infinite
		if want = `a duration such as "90m"`; f.has("forever") {
			want += `, or "forever"`
		}
		if text != "forever" || !f.has("forever") {
			d, err = time.ParseDuration(text)
		}
		v.SetInt(int64(d))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
		want = "true or false"
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
		want = "a number"
	case v.Kind() == reflect.Slice:
		v.Set(reflect.ValueOf(strings.Split(text, ",")))
	default:
		return "no value: the option has no text form"
	}
	if err != nil {
		return want
	}
	return ""
}

// UnmarshalJSON reads options, a pointer to a struct. An unknown field, a
// duplicate, or an invalid value is an error that names the field.
func UnmarshalJSON(data []byte, options any) error {
	fields := fieldsOf(options)
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, _ := decoder.Token(); start != json.Delim('{') || !json.Valid(data) {
		return invalid("", NotShown, "a JSON object of "+typeName(options))
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, _ := decoder.Token()
		var raw json.RawMessage
		_ = decoder.Decode(&raw) // data is valid JSON
		key, _ := token.(string)
		at := slices.IndexFunc(fields, func(f field) bool { return f.key != "" && f.key == key })
		if at < 0 || seen[key] {
			return invalid(" in JSON", Shown(key), "each of "+strings.Join(keys(fields, true), ", ")+" once at most")
		}
		seen[key] = true
		if err := fields[at].unmarshal(raw); err != nil {
			return err
		}
	}
	return nil
}

func (f field) unmarshal(raw json.RawMessage) error {
	if string(raw) == "null" {
		return nil
	}
	if f.value.Type() != durationType {
		err := json.Unmarshal(raw, f.value.Addr().Interface())
		if named := (*abstractions.InvalidError)(nil); err == nil || errors.As(err, &named) {
			return err // of a type with its own UnmarshalJSON: it names the field
		}
		return invalid("."+f.name, NotShown, "a JSON "+f.value.Type().String()+` in "`+f.key+`"`)
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = "a number" // which is not a duration
	}
	if want := f.set(text); want != "" {
		return invalid("."+f.name, Shown(string(raw)), want)
	}
	return nil
}

// invalid returns an error about options. The first parameter is appended to "Options" to name the
// field.
func invalid(what string, value any, want string) error {
	return &abstractions.InvalidError{Field: "Options" + what, Value: value, Want: want}
}

// BadOption returns the error for an invalid field of Options.
func BadOption(field string, value any, want string) error { return invalid("."+field, value, want) }

// keys returns the JSON names of the fields: of all fields, or only of those that a URL may set.
func keys(fields []field, secrets bool) []string {
	var all []string
	for _, f := range fields {
		if f.key != "" && (secrets || f.inQuery()) {
			all = append(all, f.key)
		}
	}
	return all
}

// Complete fills in the defaults of options, a pointer to a struct, and checks
// their bounds. An error names the field, the value and the bound.
//
// Options are a struct of fields such as
//
//	Table     string        `json:"table" option:"default=lease,maxlen=40"`
//	Retention time.Duration `json:"retention" option:"retention,min=1m"`
//
// A field without a name in its json tag, or with "-", can be set only in Go.
// The option tag is a comma-separated list of:
//
//	secret            the field is not shown, and not set by a URL's query
//	default=V         V replaces the zero value
//	min=V, max=V      the bounds of a number or duration; zero is always accepted
//	forever           a duration may be abstractions.Infinite: "forever"
//	maxlen=N          the maximum length of a string, in bytes
//	oneof=A|B         the valid values of a string
//	path              a string of names separated by slashes
//	timeout           DefaultTimeout, 1ms to 1h
//	retention         DefaultRetention, 1ms to 10 years, or forever
//
// Fields are strings, booleans, integers, durations, lists of strings (with commas
// in a URL), and types that implement encoding.TextUnmarshaler. In JSON they may be
// of any type.
func Complete(options any) error {
	for _, f := range fieldsOf(options) {
		if value := f.tag["default"]; value != "" && f.value.IsZero() {
			if want := f.set(value); want != "" {
				panic(fmt.Sprintf("providerkit: the default of field %s is not %s", f.name, want))
			}
		}
		if want := f.check(); want != "" {
			value := f.value.Interface()
			switch {
			case f.secret():
				value = NotShown
			case f.value.Kind() == reflect.String:
				value = f.value.String()
			}
			return invalid("."+f.name, value, want)
		}
	}
	return nil
}

// check returns a description of valid values if the value is invalid, and otherwise "".
func (f field) check() (want string) {
	switch v := f.value; {
	case v.IsZero():
	case v.Kind() == reflect.String:
		if most := f.bound("maxlen", v.Len()); v.Len() > most {
			return fmt.Sprintf("at most %d bytes", most)
		}
		if all := f.tag["oneof"]; all != "" && !slices.Contains(strings.Split(all, "|"), v.String()) {
			return strings.ReplaceAll(all, "|", " or ")
		}
		if f.has("path") && (abstractions.ValidateName(v.String()) != nil || path.Clean("/"+v.String()) != "/"+v.String()) {
			return "names separated by slashes"
		}
	case v.Kind() == reflect.Int, v.Kind() == reflect.Int64:
		n := int(v.Int())
		least, most := f.bound("min", 0), f.bound("max", max(n, 0))
		if n >= least && n <= most || f.has("forever") && v.Int() == int64(abstractions.Infinite) {
			return ""
		}
		want = f.formatInt(least) + " or more"
		if f.has("max") {
			want = f.formatInt(least) + " to " + f.formatInt(most)
		}
		if f.has("forever") {
			want += ", or forever"
		}
		return want + "; or 0 for the default"
	}
	return ""
}

// bound parses a number or duration from a tag.
func (f field) bound(name string, fallback int) int {
	text, ok := f.tag[name]
	if !ok {
		return fallback
	}
	if d, err := time.ParseDuration(text); err == nil && f.value.Type() == durationType {
		return int(d)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("providerkit: %s of field %s: %v", name, f.name, err))
	}
	return n
}

func (f field) formatInt(n int) string {
	if f.value.Type() == durationType {
		return time.Duration(n).String()
	}
	return strconv.Itoa(n)
}

// ExactlyOne returns which of the named fields of options is set. It is an error if none of these
// fields, or more than one of them, is set.
func ExactlyOne(options any, names ...string) (string, error) {
	var given, everywhere, inGo []string
	for _, f := range fieldsOf(options) {
		if !slices.Contains(names, f.name) {
			continue
		}
		if !f.value.IsZero() {
			given = append(given, f.name)
		}
		if f.key == "" {
			inGo = append(inGo, f.name)
		} else {
			everywhere = append(everywhere, f.name)
		}
	}
	if len(given) == 1 {
		return given[0], nil
	}
	want := "exactly one of " + strings.Join(everywhere, ", ")
	if len(inGo) > 0 {
		want += ", or in Go " + strings.Join(inGo, ", ")
	}
	if len(given) == 0 {
		return "", invalid("", unquotedText("with none set"), want)
	}
	return "", invalid("", unquotedText("with "+strings.Join(given, " and ")), want)
}

// Describe returns a text with the fields of options that are set, without secrets. For a
// field that can be set only in Go it shows the type.
func Describe(options any) string {
	var set []string
	for _, f := range fieldsOf(options) {
		if !f.value.IsZero() {
			set = append(set, f.name+": "+f.text())
		}
	}
	return typeName(options) + "{" + strings.Join(set, ", ") + "}"
}

func (f field) text() string {
	v := f.value
	switch {
	case f.secret():
		return string(NotShown)
	case v.Type() == durationType && v.Int() == int64(abstractions.Infinite):
		return "forever"
	case f.key == "":
		if v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		return v.Type().String()
	case v.Kind() == reflect.String:
		return strconv.Quote(v.String())
	case v.Kind() == reflect.Struct && v.NumMethod() == 0: // without a String method of its own
		return Describe(v.Interface())
	}
	return fmt.Sprint(v.Interface())
}

func typeName(options any) string { return strings.TrimPrefix(fmt.Sprintf("%T", options), "*") }

// Format implements fmt.Formatter with the text of Describe, for all verbs.
func Format(f fmt.State, options any) { _, _ = fmt.Fprint(f, Describe(options)) }

// MarshalJSON returns the text of Describe as a JSON string: options with
// secrets can't be saved as JSON.
func MarshalJSON(options any) ([]byte, error) { return json.Marshal(Describe(options)) }
