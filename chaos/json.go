package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// ParsePlan reads a plan from JSON and checks it. Beside what Plan.Validate checks,
// a rule is an error that can never happen since an earlier one takes all its
// operations. (In Go such a rule may wait until Provider.Disable stops the other.)
func ParsePlan(data []byte) (Plan, error) {
	if string(bytes.TrimSpace(data)) == "null" {
		return Plan{}, invalid("Plan", "JSON null", "the JSON of a chaos.Plan, an object")
	}
	var plan Plan
	if err := json.Unmarshal(data, &plan); err != nil {
		return Plan{}, invalidJSON("Plan", err)
	}
	return plan, firstOf(plan.Validate(), plan.shadowed())
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

// UnmarshalJSON reads a match.
func (m *Match) UnmarshalJSON(data []byte) error {
	type plain Match
	return strictly("Match", data, (*plain)(m))
}

// UnmarshalJSON reads a budget.
func (b *Budget) UnmarshalJSON(data []byte) error {
	type plain Budget
	return strictly("Budget", data, (*plain)(b))
}

// The wire types below write durations as text. Their embedded pointer is the
// struct itself, whose fields of the same names they hide. What JSON leaves out
// stays as it is.
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
		From        duration `json:"from,omitzero"`
		To          duration `json:"to,omitzero"`
		Repeat      duration `json:"repeat,omitzero"`
		Probability *float64 `json:"probability,omitempty"` // nil: left out, which is not 0
	}
	plainRate Rate
	rateJSON  struct {
		*plainRate
		Per duration `json:"per,omitzero"`
	}
)

// UnmarshalJSON reads a fault.
func (f *Fault) UnmarshalJSON(data []byte) error {
	fields := f.wire()
	if err := strictly("Fault", data, &fields); err != nil {
		return err
	}
	return firstOf(fields.Delay.to(&f.Delay, "Fault.delay"), fields.Jitter.to(&f.Jitter, "Fault.jitter"),
		fields.RetryAfter.to(&f.RetryAfter, "Fault.retry_after"))
}

func (f *Fault) wire() faultJSON {
	return faultJSON{(*plainFault)(f), duration{Duration: f.Delay}, duration{Duration: f.Jitter}, duration{Duration: f.RetryAfter}}
}

// MarshalJSON writes what UnmarshalJSON reads.
func (f Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(f.wire())
}

// UnmarshalJSON reads a policy.
func (p *Policy) UnmarshalJSON(data []byte) error {
	fields := p.wire()
	fields.Probability = nil
	if err := strictly("When", data, &fields); err != nil {
		return err
	}
	if fields.Probability != nil {
		if p.Probability = *fields.Probability; p.Probability == 0 {
			return invalid("When.probability", 0, "more than 0, up to 1; leave it out for always, and the rule for never")
		}
	}
	return firstOf(fields.From.to(&p.From, "When.from"), fields.To.to(&p.To, "When.to"), fields.Repeat.to(&p.Repeat, "When.repeat"))
}

func (p *Policy) wire() policyJSON {
	fields := policyJSON{plainPolicy: (*plainPolicy)(p), From: duration{Duration: p.From}, To: duration{Duration: p.To}, Repeat: duration{Duration: p.Repeat}}
	if p.Probability != 0 {
		fields.Probability = &p.Probability
	}
	return fields
}

// MarshalJSON writes what UnmarshalJSON reads.
func (p Policy) MarshalJSON() ([]byte, error) {
	return json.Marshal(p.wire())
}

// UnmarshalJSON reads a rate.
func (r *Rate) UnmarshalJSON(data []byte) error {
	fields := r.wire()
	if err := strictly("Rate", data, &fields); err != nil {
		return err
	}
	return fields.Per.to(&r.Per, "Rate.per")
}

func (r *Rate) wire() rateJSON { return rateJSON{(*plainRate)(r), duration{Duration: r.Per}} }

// MarshalJSON writes what UnmarshalJSON reads.
func (r Rate) MarshalJSON() ([]byte, error) {
	return json.Marshal(r.wire())
}

// duration is a time.Duration as text.
type duration struct {
	time.Duration
	wrong *string // text that is none
}

const aTime = `a time as text: "1.5s"`

func (d duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText does not know the field's name. So it leaves a complaint to the method to.
func (d *duration) UnmarshalText(text []byte) (err error) {
	if d.Duration, err = time.ParseDuration(string(text)); err != nil {
		wrong := string(text)
		d.wrong = &wrong
	}
	return nil
}

// to sets a field, unless the text was wrong.
func (d duration) to(field *time.Duration, name string) error {
	if d.wrong != nil {
		return invalid(name, *d.wrong, aTime)
	}
	*field = d.Duration
	return nil
}

// strictly reads JSON in which each field has to exist, and to stand once. What it
// does not know is named as a field of the struct called what.
func strictly(what string, data []byte, into any) error {
	if field := repeated(data); field != "" {
		return invalid(what+"."+field, "twice", "a field that stands there once")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return invalidJSON(what, err)
	}
	return nil
}

// repeated returns a field of a JSON object that stands there twice, in whatever
// case, as package json matches them; or "". Objects within are not looked at.
func repeated(data []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return "" // the other reader tells
	}
	seen := map[string]bool{}
	for decoder.More() {
		key, err := decoder.Token()
		field, ok := key.(string)
		if err != nil || !ok || decoder.Decode(new(json.RawMessage)) != nil {
			return ""
		}
		folded := strings.ToLower(field)
		if seen[folded] {
			return field
		}
		seen[folded] = true
	}
	return ""
}

// invalidJSON tells an error of package json as one of ours.
func invalidJSON(what string, err error) error {
	if invalid := (*abstractions.InvalidError)(nil); errors.As(err, &invalid) {
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
	return invalid(what, "JSON "+wrong.Value, want+", "+inJSON(wrong.Type))
}

// inJSON is what a type is in JSON.
func inJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Uint64:
		return "a whole number"
	}
	if t == reflect.TypeFor[duration]() {
		return aTime
	}
	return "an object"
}

// within says where the field of an error is. The structs' own names give way
// to the path.
func within(what string, err error) error {
	invalid := (*abstractions.InvalidError)(nil)
	if !errors.As(err, &invalid) {
		return invalidJSON(what, err)
	}
	field := strings.TrimPrefix(strings.TrimPrefix(invalid.Field, "Plan"), "Rule")
	if field != "" && field[0] != '.' {
		field = "." + field
	}
	return &abstractions.InvalidError{Field: what + field, Value: invalid.Value, Want: invalid.Want}
}
