package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	leasing "github.com/distributedleasing/leasing/abstractions"
)

// ParsePlan reads a plan from JSON and checks it.
func ParsePlan(data []byte) (Plan, error) {
	var plan Plan
	if err := json.Unmarshal(data, &plan); err != nil {
		return Plan{}, invalidJSON("Plan", err)
	}
	return plan, plan.Validate()
}

// UnmarshalJSON reads a plan. Errors name the field: "Plan.Rules[2].Fault.delay".
func (p *Plan) UnmarshalJSON(data []byte) error {
	type plain Plan // without this method
	fields := struct {
		*plain
		Rules []json.RawMessage `json:"rules"`
	}{plain: (*plain)(p)}
	if err := strictly("Plan", data, &fields); err != nil {
		return err
	}
	if fields.Rules != nil {
		p.Rules = make([]Rule, len(fields.Rules))
	}
	for i, text := range fields.Rules {
		if err := json.Unmarshal(text, &p.Rules[i]); err != nil {
			return within(fmt.Sprintf("Plan.Rules[%d]", i), err)
		}
	}
	return nil
}

// UnmarshalJSON reads a rule.
func (r *Rule) UnmarshalJSON(data []byte) error {
	type plain Rule
	return strictly("Rule", data, (*plain)(r))
}

// The wire types below write durations as text. Their embedded pointer is the
// struct itself, whose fields of the same names they hide.
type (
	plainFault Fault
	faultJSON  struct {
		*plainFault
		Delay      duration `json:"delay,omitzero"`
		Jitter     duration `json:"jitter,omitzero"`
		RetryAfter duration `json:"retry_after,omitzero"`
	}
	plainPolicy Policy
	policyJSON  struct {
		*plainPolicy
		From   duration `json:"from,omitzero"`
		To     duration `json:"to,omitzero"`
		Repeat duration `json:"repeat,omitzero"`
	}
	plainRate Rate
	rateJSON  struct {
		*plainRate
		Per duration `json:"per,omitzero"`
	}
)

// UnmarshalJSON reads a fault.
func (f *Fault) UnmarshalJSON(data []byte) error {
	fields := faultJSON{plainFault: (*plainFault)(f)}
	if err := strictly("Fault", data, &fields); err != nil {
		return err
	}
	f.Delay, f.Jitter, f.RetryAfter = time.Duration(fields.Delay), time.Duration(fields.Jitter), time.Duration(fields.RetryAfter)
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (f Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(faultJSON{(*plainFault)(&f), duration(f.Delay), duration(f.Jitter), duration(f.RetryAfter)})
}

// UnmarshalJSON reads a policy.
func (p *Policy) UnmarshalJSON(data []byte) error {
	fields := policyJSON{plainPolicy: (*plainPolicy)(p)}
	if err := strictly("When", data, &fields); err != nil {
		return err
	}
	p.From, p.To, p.Repeat = time.Duration(fields.From), time.Duration(fields.To), time.Duration(fields.Repeat)
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (p Policy) MarshalJSON() ([]byte, error) {
	return json.Marshal(policyJSON{(*plainPolicy)(&p), duration(p.From), duration(p.To), duration(p.Repeat)})
}

// UnmarshalJSON reads a rate.
func (r *Rate) UnmarshalJSON(data []byte) error {
	fields := rateJSON{plainRate: (*plainRate)(r)}
	if err := strictly("Rate", data, &fields); err != nil {
		return err
	}
	r.Per = time.Duration(fields.Per)
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (r Rate) MarshalJSON() ([]byte, error) {
	return json.Marshal(rateJSON{(*plainRate)(&r), duration(r.Per)})
}

// duration is a time.Duration as text.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// strictly reads JSON in which each field has to exist. What it does not know
// is named as a field of the struct called what.
func strictly(what string, data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return invalidJSON(what, err)
	}
	return nil
}

// invalidJSON tells an error of package json as one of ours.
func invalidJSON(what string, err error) error {
	if invalid := (*leasing.InvalidError)(nil); errors.As(err, &invalid) {
		return within(what, err)
	}
	want := "the JSON of a chaos." + what
	if what == "When" {
		want = "the JSON of a chaos.Policy"
	}
	wrong := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &wrong) {
		return invalid(what, "JSON", want+": "+err.Error())
	}
	// The structs that JSON is read into embed the real ones.
	if i := strings.LastIndexByte(wrong.Field, '.'); wrong.Field != "" {
		what += "." + wrong.Field[i+1:]
	}
	switch wrong.Type.Kind() {
	case reflect.Struct:
		want += ", an object"
	case reflect.Int64:
		want += `, a time as text: "1.5s"`
	default:
		want += ", a " + wrong.Type.String()
	}
	return invalid(what, "JSON "+wrong.Value, want)
}

// within says where the field of an error is. The structs' own names give way
// to the path.
func within(what string, err error) error {
	invalid := (*leasing.InvalidError)(nil)
	if !errors.As(err, &invalid) {
		return invalidJSON(what, err)
	}
	field := strings.TrimPrefix(strings.TrimPrefix(invalid.Field, "Plan"), "Rule")
	if field != "" && field[0] != '.' {
		field = "." + field
	}
	return &leasing.InvalidError{Field: what + field, Value: invalid.Value, Want: invalid.Want}
}
