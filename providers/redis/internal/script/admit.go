package script

import (
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// AdmitText is sent as text: a server that knows the script has nothing else to report.
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
	New        bool          // the server has had no vote since it had no data
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
