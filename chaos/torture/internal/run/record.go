package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// savedFormat is the value of the first field of a saved history.
const savedFormat = "leasing torture history 1"

// Record is the history of a run, with the facts on which its check depends.
type Record struct {
	Format   string           `json:"format"`
	Provider string           `json:"provider"`
	Options  portable         `json:"options"` // with defaults filled in
	Lateness leasing.Lateness `json:"lateness"`
	Pushes   bool             `json:"pushes"`
	History  *history.History `json:"history"`
}

// ReadRecord reads a record that Report.WriteHistory has written.
func ReadRecord(from io.Reader) (r Record, err error) {
	if err := json.NewDecoder(from).Decode(&r); err != nil {
		return r, fmt.Errorf("torture: read a history: %w", err)
	}
	if r.Format != savedFormat || r.History == nil {
		return r, fmt.Errorf("torture: read a history: it is no %q", savedFormat)
	}
	return r, nil
}

// portable is Options as JSON can represent them: without functions, and with only the numbers of the manager's
// options.
type portable Options

// MarshalJSON writes only the numbers of the manager's options, not its functions and loggers.
func (p portable) MarshalJSON() ([]byte, error) {
	type plain portable
	return json.Marshal(struct {
		plain
		Manager map[string]any `json:"manager"`
	}{plain(p), numbers(reflect.ValueOf(p.Manager))})
}

// UnmarshalJSON reads the output of MarshalJSON.
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

// numbers returns the numbers in a struct and in its nested structs, by their names in JSON.
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

// setNumbers sets the fields to values that numbers returned.
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

// snake returns the JSON name of a field: min_ttl for MinTTL.
func snake(name string) string { return strings.ToLower(words.ReplaceAllString(name, "$1${3}_$2$4")) }
