package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
)

// savedFormat is the first thing in a saved history.
const savedFormat = "leasing torture history 1"

// saved is a history with all that its check depends on.
type saved struct {
	Format   string
	Provider string
	Settings settings
	Manager  map[string]any // the numbers
	Lateness leasing.Lateness
	Pushes   bool
	Found    []Violation // during the run
	History  *history
}

// settings are the options that a check reads, or a report shows.
type settings struct {
	Plan                                 chaos.Plan
	Seed                                 uint64
	Workers, Names, MaxSearchSteps       int
	Intensity                            float64
	For, TTL, Patience                   time.Duration
	AssumptionsBroken, Votes, Repeatable bool
	Command                              string
}

// WriteHistory writes all that the run has recorded, and all that is needed to check it
// again, as JSON for Verify.
func (r *Report) WriteHistory(w io.Writer) error {
	var s settings
	assign(&s, &r.Options)
	return json.NewEncoder(w).Encode(saved{savedFormat, r.Provider, s, numbers(r.Manager), r.lateness, r.pushes, r.found, r.history})
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
	var o Options
	assign(&o, &s.Settings)
	text, err := json.Marshal(s.Manager)
	if err == nil {
		err = json.Unmarshal(text, &o.Manager)
	}
	if err != nil {
		return nil, fmt.Errorf("torture: read a history: Manager: %w", err)
	}
	return check(s.History, s.Provider, o, s.Lateness, s.Pushes, s.Found), nil
}

// assign copies the fields of settings.
func assign(to, from any) {
	target, source := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for field := range reflect.TypeFor[settings]().Fields() {
		target.FieldByName(field.Name).Set(source.FieldByName(field.Name))
	}
}

// numbers are the manager's options that can be written: no functions, no loggers.
func numbers(o leasing.Options) map[string]any {
	all := map[string]any{}
	for field, value := range reflect.ValueOf(o).Fields() {
		if value.CanInt() || value.CanFloat() {
			all[field.Name] = value.Interface()
		}
	}
	return all
}
