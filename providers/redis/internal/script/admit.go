package script

import (
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// AdmitText is always sent as text, even to a server that has the script already.
var AdmitText = read("redlock/admit")

// The verbs of admit.lua.
const (
	Admit     = "admit"
	Look      = "look"
	Bootstrap = "bootstrap"
)

// Admission is the reply of admit.lua.
type Admission struct {
	Run, First string
	Left       time.Duration // of the quarantine
	New        bool          // the server had no data, and has not voted since then
}

// ParseAdmission reads the reply of admit.lua.
func ParseAdmission(values []any) (a Admission, err error) {
	l := List{Rest: values}
	a = Admission{Run: l.Text(), First: l.Text(), Left: l.Millis(), New: l.Int() == 1}
	if l.Bad {
		err = fmt.Errorf("%w: the server's run can't be read", abstractions.ErrUnavailable)
	}
	return a, err
}
