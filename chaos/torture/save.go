package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"github.com/distributedleasing/leasing"
)

// savedFormat is the first thing in a saved history.
const savedFormat = "leasing torture history 1"

// saved is a history with all that its check depends on.
type saved struct {
	Format   string           `json:"format"`
	Provider string           `json:"provider"`
	Options  portable         `json:"options"`
	Lateness leasing.Lateness `json:"lateness"`
	Pushes   bool             `json:"pushes"`
	History  *history         `json:"history"`
}

// portable are options as JSON has them: no functions, and the numbers of the manager's options.
type portable Options

// MarshalJSON writes the manager's numbers, and not its functions and loggers.
func (p portable) MarshalJSON() ([]byte, error) {
	type plain portable
	return json.Marshal(struct {
		plain
		Manager map[string]any `json:"manager"`
	}{plain(p), numbers(reflect.ValueOf(p.Manager))})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *portable) UnmarshalJSON(data []byte) error {
	type plain portable
	read := struct {
		*plain
		Manager json.RawMessage `json:"manager"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	return setNumbers(reflect.ValueOf(&p.Manager).Elem(), read.Manager)
}

// numbers are the numbers of a struct and of the structs in it, by their names in JSON.
func numbers(of reflect.Value) map[string]any {
	all := map[string]any{}
	for field, value := range of.Fields() {
		switch {
		case !field.IsExported():
		case value.CanInt() || value.CanFloat():
			all[snake(field.Name)] = value.Interface()
		case value.Kind() == reflect.Struct:
			all[snake(field.Name)] = numbers(value)
		}
	}
	return all
}

// setNumbers sets the fields that numbers has written.
func setNumbers(of reflect.Value, data json.RawMessage) error {
	var all map[string]json.RawMessage
	if data == nil {
		return nil
	}
	err := json.Unmarshal(data, &all)
	for field, value := range of.Fields() {
		switch text := all[snake(field.Name)]; {
		case text == nil || !field.IsExported():
		case value.Kind() == reflect.Struct:
			err = errors.Join(err, setNumbers(value, text))
		default:
			err = errors.Join(err, json.Unmarshal(text, value.Addr().Interface()))
		}
	}
	return err
}

var words = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// snake is the name in JSON of a field: min_ttl of MinTTL.
func snake(name string) string { return strings.ToLower(words.ReplaceAllString(name, "$1${3}_$2$4")) }

// WriteHistory writes all that the run has recorded, and all that is needed to check it
// again, as JSON for Verify. Its durations are nanoseconds.
func (r *Report) WriteHistory(w io.Writer) error {
	return json.NewEncoder(w).Encode(saved{savedFormat, r.Provider, portable(r.Options), r.lateness, r.pushes, r.history})
}

// Verify checks a history that Report.WriteHistory has written.
func Verify(from io.Reader) (*Report, error) {
	var s saved
	if err := json.NewDecoder(from).Decode(&s); err != nil {
		return nil, fmt.Errorf("torture: read a history: %w", err)
	}
	if s.Format != savedFormat || s.History == nil {
		return nil, fmt.Errorf("torture: read a history: it is no %q", savedFormat)
	}
	return check(s.History, s.Provider, Options(s.Options), s.Lateness, s.Pushes), nil
}
