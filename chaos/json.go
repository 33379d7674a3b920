package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// ParsePlan reads a plan from JSON and validates the plan. In addition to the checks of
// Plan.Validate, it refuses a rule that can never apply because an earlier rule takes all its
// operations. (In Go such a rule is allowed, since Provider.Disable may disable the earlier
// rule.)
func ParsePlan(data []byte) (Plan, error) {
	if string(bytes.TrimSpace(data)) == "null" {
		return Plan{}, invalid("Plan", "JSON null", "an object")
	}
	var plan Plan
	if err := json.Unmarshal(data, &plan); err != nil {
		return Plan{}, invalidJSON("Plan", err, "the JSON of a chaos.Plan")
	}
	return plan, firstOf(plan.Validate(), plan.shadowed())
}

// UnmarshalJSON reads a plan. Errors name the field: "Plan.Rules[2].Fault.delay".
func (p *Plan) UnmarshalJSON(data []byte) error { return decode("Plan", data, reflect.ValueOf(p)) }

// UnmarshalJSON reads a rule.
func (r *Rule) UnmarshalJSON(data []byte) error { return decode("Rule", data, reflect.ValueOf(r)) }

// UnmarshalJSON reads a fault.
func (f *Fault) UnmarshalJSON(data []byte) error { return decode("Fault", data, reflect.ValueOf(f)) }

// UnmarshalJSON reads a policy.
func (p *Policy) UnmarshalJSON(data []byte) error { return decode("When", data, reflect.ValueOf(p)) }

// UnmarshalJSON reads a rate.
func (r *Rate) UnmarshalJSON(data []byte) error { return decode("Rate", data, reflect.ValueOf(r)) }

// MarshalJSON writes what UnmarshalJSON reads. It fails if Custom is set.
func (f Fault) MarshalJSON() ([]byte, error) {
	if f.Custom != nil {
		return nil, invalid("Fault.Custom", fmt.Sprintf("%T", f.Custom), noCode)
	}
	type plain Fault
	return json.Marshal(struct {
		plain
		Delay      duration `json:"delay,omitzero"`
		Jitter     duration `json:"jitter,omitzero"`
		RetryAfter duration `json:"retry_after,omitzero"`
	}{plain(f), duration(f.Delay), duration(f.Jitter), duration(f.RetryAfter)})
}

// MarshalJSON writes what UnmarshalJSON reads. It fails if Custom is set.
func (p Policy) MarshalJSON() ([]byte, error) {
	if p.Custom != nil {
		return nil, invalid("When.Custom", fmt.Sprintf("%T", p.Custom), noCode)
	}
	type plain Policy
	return json.Marshal(struct {
		plain
		From   duration `json:"from,omitzero"`
		To     duration `json:"to,omitzero"`
		Repeat duration `json:"repeat,omitzero"`
	}{plain(p), duration(p.From), duration(p.To), duration(p.Repeat)})
}

// MarshalJSON writes what UnmarshalJSON reads.
func (r Rate) MarshalJSON() ([]byte, error) {
	type plain Rate
	return json.Marshal(struct {
		plain
		Per duration `json:"per,omitzero"`
	}{plain(r), duration(r.Per)})
}

const noCode = "nil in a plan that is written as JSON, which can't contain code"

// duration is a time.Duration that is text in JSON.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// decode reads JSON like package encoding/json, with three differences: durations are text, an
// unknown or duplicate field is an error, and an error has the path of its field.
func decode(path string, data []byte, into reflect.Value) error {
	into = reflect.Indirect(into)
	if string(data) == "null" { // null leaves the value as it is
		return nil
	}
	if into.Type() == reflect.TypeFor[time.Duration]() {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return invalidJSON(path, err, aTime)
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return invalid(path, text, aTime)
		}
		into.SetInt(int64(d))
		return nil
	}
	switch {
	case into.Kind() == reflect.Struct:
		return decodeFields(path, data, into)
	case isList(into.Type()):
		var items []json.RawMessage
		if err := json.Unmarshal(data, &items); err != nil {
			return invalidJSON(path, err, "a list")
		}
		into.Set(reflect.MakeSlice(into.Type(), len(items), len(items)))
		for i, item := range items {
			if err := decode(fmt.Sprintf("%s[%d]", path, i), item, into.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := json.Unmarshal(data, into.Addr().Interface()); err != nil {
		return invalidJSON(path, err, inJSON[into.Kind()])
	}
	if strings.HasSuffix(path, ".probability") && into.IsZero() {
		return invalid(path, 0, "more than 0, up to 1; leave it out for always, and the rule for never")
	}
	return nil
}

const aTime = `a time as text: "1.5s"`

// inJSON describes the JSON values of Go kinds.
var inJSON = map[reflect.Kind]string{
	reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "a list of strings",
	reflect.Float64: "a number", reflect.Int: "a whole number", reflect.Uint64: "a whole number",
}

func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

func decodeFields(path string, data []byte, into reflect.Value) error {
	decoder, seen := json.NewDecoder(bytes.NewReader(data)), map[string]bool{}
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return invalidJSON(path, errors.Join(err, json.Unmarshal(data, new(struct{}))), "an object")
	}
	for decoder.More() {
		var text json.RawMessage
		key, err := decoder.Token()
		if err = errors.Join(err, decoder.Decode(&text)); err != nil {
			return invalidJSON(path, err, "an object")
		}
		name := key.(string)
		field, ok := into.Type().FieldByNameFunc(func(field string) bool {
			f, _ := into.Type().FieldByName(field)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return tag != "-" && strings.EqualFold(tag, name)
		})
		where := path + "." + name
		switch {
		case !ok:
			return invalid(path, "JSON", fmt.Sprintf("fields that exist: unknown field %q", name))
		case seen[field.Name]:
			return invalid(where, "twice", "a field once at most")
		case field.Type.Kind() == reflect.Struct, isList(field.Type):
			where = path + "." + field.Name
		}
		seen[field.Name] = true
		if err := decode(where, text, into.FieldByIndex(field.Index)); err != nil {
			return err
		}
	}
	return nil
}

// invalidJSON converts an error from package encoding/json into an InvalidError.
func invalidJSON(path string, err error, want string) error {
	if isInvalid(err) {
		return err
	}
	value := "JSON"
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		value += " " + wrong.Value
	} else {
		want += ": " + err.Error()
	}
	return invalid(path, value, want)
}
