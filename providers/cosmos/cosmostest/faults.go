package cosmostest

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Verb is the kind of a request.
type Verb string

// The verbs.
const (
	ReadAccount     Verb = "read account"
	CreateDatabase  Verb = "create database"
	CreateContainer Verb = "create container"
	ReadContainer   Verb = "read container"
	ReadItem        Verb = "read item"
	CreateItem      Verb = "create item"
	ReplaceItem     Verb = "replace item"
	DeleteItem      Verb = "delete item"
	QueryItems      Verb = "query items"
)

// Operation describes a request to a hook.
type Operation struct {
	Verb                    Verb
	Database, Container, ID string
}

// Write reports whether the operation may change an item.
func (o Operation) Write() bool {
	return o.Verb == CreateItem || o.Verb == ReplaceItem || o.Verb == DeleteItem
}

// Hook decides the fault of a request. It is called from several goroutines.
type Hook func(Operation) Fault

// Fault is a failure of a request. The zero Fault causes no failure.
type Fault struct {
	Delay time.Duration // before the operation is applied
	// Late applies the operation after Delay even if the client has left.
	Late bool
	// Status, unless 0, replaces the status of the answer.
	Status     int
	Substatus  int
	RetryAfter time.Duration
	// Drop breaks the connection instead of sending an answer.
	Drop bool
	// Applied applies the operation before Status or Drop.
	Applied    bool
	DelayReply time.Duration // after the operation was applied
	// Stale answers a read from a replica without the item's last write, unless the
	// session token includes that write.
	Stale bool
	// Lag is the number of writes that a Stale replica lacks; 0 means 1.
	Lag int
}

// Before sets the hook; nil removes the hook.
func (a *Account) Before(hook Hook) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before = hook
}

// run applies the operation with the hook's fault.
func (c *call) run() *reply {
	var err error
	if c.body, err = io.ReadAll(c.r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	fault := c.fault()
	if !c.sleep(fault.Delay, fault.Late) {
		panic(http.ErrAbortHandler) // the client has left, so the request never arrived
	}
	var answer *reply
	if fault.Applied || !fault.Drop && fault.Status == 0 {
		answer = c.apply(fault)
	}
	c.sleep(fault.DelayReply, false)
	switch {
	case fault.Drop:
		panic(http.ErrAbortHandler)
	case fault.Status != 0:
		answer = refuse(fault.Status, fault.Substatus, "injected by the hook")
		if fault.RetryAfter > 0 {
			answer.header.Set("x-ms-retry-after-ms", strconv.FormatInt(fault.RetryAfter.Milliseconds(), 10))
		}
	}
	return answer
}

func (c *call) fault() Fault {
	a := c.account
	a.mu.Lock()
	hook := a.before
	if a.served != nil {
		a.served = append(a.served, c.op)
	}
	a.mu.Unlock()
	if hook == nil {
		return Fault{}
	}
	return hook(c.op)
}

// sleep waits, and reports whether the client is still connected. If late is set, sleep
// ignores the client's connection, and reports true.
func (c *call) sleep(d time.Duration, late bool) bool {
	if d <= 0 {
		return true
	}
	ctx := c.r.Context()
	if late {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
