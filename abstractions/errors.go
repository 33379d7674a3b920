package abstractions

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The sentinels. Each error from this package and from every provider matches a sentinel (see errors.Is). ErrHeld and ErrLost
// differ: ErrHeld means that someone else has the name that you asked for, ErrLost that your own lease has ended.
var (
	// ErrHeld: someone else has the name at present. Carried by *HeldError.
	ErrHeld = errors.New("held by another")
	// ErrLost: the lease has ended without being released. Carried by *LostError.
	ErrLost = errors.New("lease lost")
	// ErrReleased: the lease was released. A provider also returns it for the ID of a claim
	// that was released or broken.
	ErrReleased = errors.New("lease released")
	// ErrHandedOver: Lease.HandOver ended the lease in this process.
	ErrHandedOver = errors.New("lease handed over")
	// ErrClosed: the manager or provider was closed.
	ErrClosed = errors.New("closed")
	// ErrUnavailable: the backend did not answer, or could not serve the
	// request. Unless it is also ErrThrottled, the request may have been
	// applied.
	ErrUnavailable = errors.New("backend unavailable")
	// ErrThrottled: the backend refused the request for now and did nothing. Such an error also
	// matches ErrUnavailable. It is a *ThrottledError if the backend said how long to wait.
	ErrThrottled = errors.New("throttled by the backend")
	// ErrInvalid: the request is invalid, and was not applied.
	ErrInvalid = errors.New("invalid")
	// ErrDenied: the backend refused the credentials, or they lack a permission.
	ErrDenied = errors.New("access denied")
	// ErrNotSetUp: the backend lacks something that must be created first (a
	// table, a container), or has it in a version that this library does not
	// know. The text names a remedy.
	ErrNotSetUp = errors.New("backend not set up")
	// ErrStale: a fencing token is not, or no longer, the name's latest.
	ErrStale = errors.New("stale fencing token")
	// ErrUnsupported: the provider lacks an optional ability.
	ErrUnsupported = errors.New("not supported by the provider")
)

// Error says which operation failed, at which provider, for which name, and
// why. It wraps the sentinel and the error from the backend's client library.
type Error struct {
	Op       string // a verb of Manager, Lease or Provider, in lower case: "acquire"
	Provider string // Capabilities.Provider
	Name     string // of the lease; "" where there is none
	Err      error
	// Fingerprint identifies the operation's claim, as in records, events and history. It is zero where the operation
	// has no claim, as for a break, or ended before its claim was made. The text of Error omits the fingerprint.
	Fingerprint Fingerprint
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("leasing: ")
	b.WriteString(e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	if e.Provider != "" {
		fmt.Fprintf(&b, " (%s)", e.Provider)
	}
	b.WriteString(": ")
	b.WriteString(dropRepeatedClass(fmt.Sprint(e.Err)))
	return b.String()
}

// dropRepeatedClass removes repetitions of the class from the text of an error. Each layer that wraps an error adds the class,
// since it can't know whether the layer below has done so already.
func dropRepeatedClass(text string) string {
	for _, class := range [...]error{ErrUnavailable, ErrThrottled, ErrDenied, ErrNotSetUp} {
		head := class.Error() + ": "
		if rest, leads := strings.CutPrefix(text, head); leads {
			return head + strings.ReplaceAll(rest, head, "")
		}
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// HeldError matches ErrHeld and describes the holder.
type HeldError struct {
	// Holder is the backend's record of the holder. Its Held is false if
	// the name is free but reserved for the waiter at the front.
	Holder Record
	// RetryAfter, unless 0, is the pause that the backend suggests before the next request.
	RetryAfter time.Duration
	// ByThisManager says that the manager that sent the request holds the name itself, as
	// in a Do inside another Do of the same name.
	ByThisManager bool
}

func (e *HeldError) Error() string {
	if !e.Holder.Held {
		return ErrHeld.Error() + ": reserved for a waiter"
	}
	text := ErrHeld.Error()
	if e.ByThisManager {
		text = "held by this manager"
	}
	if e.Holder.Owner != "" && !e.Holder.Unconfirmed {
		text += fmt.Sprintf(": %q, token %d", e.Holder.Owner, e.Holder.Token)
	}
	if left, known := e.Holder.Remaining(); known {
		text += fmt.Sprintf(", for another %v unless renewed", left.Round(time.Millisecond))
	}
	return text
}

func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// LostReason says how a lease ended without a release.
type LostReason string

// The reasons.
const (
	// LostExpired: trust ended before a renewal succeeded.
	LostExpired LostReason = "expired"
	// LostTaken: the backend reports another holder.
	LostTaken LostReason = "taken"
	// LostBroken: the lease was broken.
	LostBroken LostReason = "broken"
	// LostGone: the backend no longer has the claim: the record was removed, or
	// another client released the claim by its ID.
	LostGone LostReason = "gone"
	// LostRenewalLimit: the lease ran out after AcquireOptions.MaxRenewals renewals.
	LostRenewalLimit LostReason = "renewal_limit"
	// LostClosed: the manager was closed while the lease was in use, and the lease ran
	// out.
	LostClosed LostReason = "closed"
)

// LostError matches ErrLost. It is the cause of a lost lease's context.
type LostError struct {
	Reason LostReason
	// BrokenBy and BreakReason are the author and the reason of a break, if the
	// backend keeps both.
	BrokenBy, BreakReason string
	// Err, unless nil, is the underlying error, such as that of the last failed renewal.
	Err error
}

func (e *LostError) Error() string {
	text := ErrLost.Error() + ": " + string(e.Reason)
	if e.BrokenBy != "" {
		text += fmt.Sprintf(" by %q", e.BrokenBy)
	}
	if e.BreakReason != "" {
		text += fmt.Sprintf(" (%s)", e.BreakReason)
	}
	cause := e.Err
	var same *LostError // the provider's, with the same reason
	if errors.As(cause, &same) && same.Reason == e.Reason {
		cause = same.Err
	}
	if cause != nil {
		text += ": " + cause.Error()
	}
	return text
}

func (e *LostError) Is(target error) bool { return target == ErrLost }
func (e *LostError) Unwrap() error        { return e.Err }

// ThrottledError matches ErrThrottled and ErrUnavailable.
type ThrottledError struct {
	RetryAfter time.Duration // 0 if the backend did not say
	Err        error         // of the client library; may be nil
}

func (e *ThrottledError) Error() string {
	text := ErrThrottled.Error()
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", retry after %v", e.RetryAfter)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *ThrottledError) Is(target error) bool {
	return target == ErrThrottled || target == ErrUnavailable
}
func (e *ThrottledError) Unwrap() error { return e.Err }

// InvalidError matches ErrInvalid and names the invalid field.
type InvalidError struct {
	Field string // as it is written in Go: "AcquireOptions.TTL"
	Value any
	Want  string // the bound, and a remedy: "at least 15s, the minimum of blob; or set RaiseToMinTTL"
}

func (e *InvalidError) Error() string {
	value := fmt.Sprintf("%v", e.Value)
	switch v := e.Value.(type) {
	case string:
		value = fmt.Sprintf("%.80q", v)
	case time.Duration:
		if v == Infinite {
			value = "Infinite"
		}
	}
	return fmt.Sprintf("%v %s %s: want %s", ErrInvalid, e.Field, value, e.Want)
}

func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// NotApplied reports whether a provider's error makes it certain that the request was
// not applied and will not be. Such an error matches one of the nine sentinels that
// [Provider] lists, or ErrUnsupported. After any other error the outcome is unknown.
//
// An error with a method NotApplied() bool in its chain overrides this rule. For
// example, the error from a failed dial matches ErrUnavailable although nothing was applied, and the error from a call that
// stopped half-way may wrap ErrDenied although the backend changed something. See package providerkit.
func NotApplied(err error) bool {
	var mark interface{ NotApplied() bool }
	if errors.As(err, &mark) {
		return mark.NotApplied()
	}
	for _, sentinel := range [...]error{
		ErrHeld, ErrLost, ErrReleased, ErrStale, ErrInvalid, ErrDenied, ErrNotSetUp, ErrThrottled, ErrClosed, ErrUnsupported,
	} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// CloseError reports the leases and releases that Manager.Close left
// unfinished when it stopped waiting, because its context ended or, if the
// context has no deadline, because the time limit of Close itself had passed.
type CloseError struct {
	// InUse lists the names of leases that their holders have not released.
	// They are no longer renewed.
	InUse []string
	// Unreleased counts claims whose release the backend has not confirmed.
	Unreleased int
	// Err is the cause of the context, or says why Close stopped waiting.
	Err error
}

func (e *CloseError) Error() string {
	text := fmt.Sprint(e.Err)
	if len(e.InUse) > 0 {
		text += fmt.Sprintf(": still in use and left to run out (%d): %s", len(e.InUse), summarizeNames(e.InUse))
	}
	if e.Unreleased > 0 {
		text += fmt.Sprintf(": claims that the backend has not released: %d", e.Unreleased)
	}
	return text
}

func (e *CloseError) Unwrap() error { return e.Err }

// summarizeNames returns a text with the first few names, and the number of the others.
func summarizeNames(names []string) string {
	const limit = 10
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}
