package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/distributedleasing/leasing"
)

// savedFormat is the first thing in a saved history.
const savedFormat = "leasing torture history 3"

// saved is a history with all that its check depends on.
type saved struct {
	Format, Provider string
	Options          portable
	Lateness         leasing.Lateness
	Pushes           bool
	History          *history
}

// portable are options as JSON has them: no functions, and the manager's numbers.
type portable Options

// MarshalJSON leaves out what is no number of the manager's options: functions, loggers.
func (p portable) MarshalJSON() ([]byte, error) {
	type plain portable
	numbers := map[string]any{}
	for field, value := range reflect.ValueOf(p.Manager).Fields() {
		if value.CanInt() || value.CanFloat() {
			numbers[field.Name] = value.Interface()
		}
	}
	return json.Marshal(struct {
		plain
		Manager map[string]any
	}{plain(p), numbers})
}

// WriteHistory writes all that the run has recorded, and all that is needed to check it
// again, as JSON for Verify.
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
