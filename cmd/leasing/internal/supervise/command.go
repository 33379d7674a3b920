// Package supervise runs a command under a lease, and ends the command with all its descendants before the trust in
// the lease has run out. Two guards, which are processes of this program, do the same if this process is stopped,
// starved or killed.
package supervise

import (
	"errors"
	"os"
	"time"
)

// OnLoss is the action taken on the command when its lease ends.
type OnLoss string

// The values of OnLoss.
const (
	LossTerm   OnLoss = "term"   // TERM, and KILL once the grace is over
	LossKill   OnLoss = "kill"   // KILL at once
	LossIgnore OnLoss = "ignore" // only a warning on standard error
)

func (o *OnLoss) String() string { return string(*o) }
func (o *OnLoss) Type() string   { return "term|kill|ignore" }

func (o *OnLoss) Set(text string) error {
	switch *o = OnLoss(text); *o {
	case LossTerm, LossKill, LossIgnore:
		return nil
	}
	return errors.New("want term, kill or ignore")
}

// Command is a command that runs under leases, one after the other.
type Command struct {
	Path    string   // see LookPath
	Argv    []string // as typed
	OnLoss  OnLoss
	Grace   time.Duration // from TERM to KILL
	Signals *Signals
	Renewed <-chan struct{} // one event is enough: only the lease's state counts
	Warn    func(format string, args ...any)

	ProcessesLeft bool      // processes of the command are left, so its lease runs out
	EndedBy       os.Signal // the last signal that was passed on and also ends leasing
}

// Pause waits until d has passed, or until a signal ends leasing.
func (c *Command) Pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for c.EndedBy == nil {
		select {
		case <-timer.C:
			return
		case s := <-c.Signals.caught:
			if endsLeasing(s) {
				c.EndedBy = s
			}
		}
	}
}
