package history

import (
	"fmt"
	"time"
)

// Check names one of the checks.
type Check string

// The checks, described in the documentation of package torture.
const (
	CheckOverlap      Check = "overlap"
	CheckTrust        Check = "trust"
	CheckLinearizable Check = "linearizable"
	CheckRules        Check = "rules"
	CheckTokens       Check = "tokens"
	CheckFence        Check = "fence"
	CheckRenewal      Check = "renewal"
	CheckLoss         Check = "loss"
	CheckRelease      Check = "release"
	CheckCleanup      Check = "cleanup"
	CheckLiveness     Check = "liveness"
	CheckResults      Check = "results"
	CheckWaiting      Check = "waiting"
	CheckEvents       Check = "events"
	CheckMetadata     Check = "metadata"
	CheckListing      Check = "listing"
	CheckGhost        Check = "ghost"
	CheckBreak        Check = "break"
	CheckRefusal      Check = "refusal"
	CheckAnswer       Check = "answer"
	CheckHang         Check = "hang"
	CheckLeak         Check = "leak"
	CheckClose        Check = "close"
	CheckGrowth       Check = "growth"
	CheckGoroutine    Check = "goroutine"
)

// Violation is a broken promise.
type Violation struct {
	Check Check         `json:"check"`
	Name  string        `json:"name"` // of the lease; empty if the violation concerns no lease
	At    time.Duration `json:"at"`   // since the beginning of the run
	Text  string        `json:"text"`
}

func (v Violation) String() string {
	where := ""
	if v.Name != "" {
		where = v.Name + " "
	}
	return fmt.Sprintf("%s: %sat %s: %s", v.Check, where, Seconds(v.At), v.Text)
}

// Seconds formats a time as on the timeline.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
