package cosmostest

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Verb is what a request asks for.
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

// Operation is a request as a hook sees it.
type Operation struct {
	Verb                    Verb
	Database, Container, ID string
}

// Write reports whether the operation may change an item.
func (o Operation) Write() bool {
	return o.Verb == CreateItem || o.Verb == ReplaceItem || o.Verb == DeleteItem
}

// Hook decides what happens to a request. It is called from several goroutines.
type Hook func(Operation) Fault

// Fault is what happens to a request. The zero Fault is none.
type Fault struct {
	Delay time.Duration // before it is applied
	// Late lets it be applied after Delay although the client has left by then.
	Late bool
	// Status, unless 0, is the answer in place of the true one.
	Status     int
	Substatus  int
	RetryAfter time.Duration
	// Drop breaks the connection in place of an answer.
	Drop bool
	// Applied lets the operation take effect before Status or Drop.
	Applied    bool
	DelayReply time.Duration // after it was applied
	// Stale answers a read from a replica that lacks the item's last write,
	// unless the session token says that it has to have seen it.
	Stale bool
	// Lag, unless 0, is how many writes a Stale replica lacks instead.
	Lag int
}

// Before sets the hook; nil ends it.
func (a *Account) Before(hook Hook) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before = hook
}

// run applies the operation as the hook will have it.
func (c *call) run() *reply {
	var err error
	if c.body, err = io.ReadAll(c.r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	fault := c.fault()
	if !c.sleep(fault.Delay, fault.Late) {
		panic(http.ErrAbortHandler) // the client has left: it never arrived
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
		answer = refuse(fault.Status, fault.Substatus, "as the hook will have it")
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

// sleep reports whether the client is still there, or nobody asks.
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
