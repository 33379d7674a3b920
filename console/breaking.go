package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// breakPage asks the user to confirm the end of a lease, and shows why a lease was not ended.
type breakPage struct {
	page
	Name          string
	Lease         lease // the lease to end; its Record is nil if there is none
	Typed, Reason string
	Immediate     bool
	Problem       string // why nothing was done
}

func (c *Console) serveBreak(w http.ResponseWriter, r *http.Request) {
	if name, ok := c.nameOf(w, r); ok {
		c.confirm(w, r, http.StatusOK, &breakPage{Name: name})
	}
}

// confirm shows the page with the current lease. The form that is then sent applies only to that
// lease.
func (c *Console) confirm(w http.ResponseWriter, r *http.Request, status int, p *breakPage) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	p.page = c.page(userOf(r), "End the lease of "+p.Name)
	read := time.Now()
	record, err := c.manager.Inspect(ctx, p.Name)
	if p.Error = err; err == nil && record.Held {
		p.Lease = lease{&record, read}
	}
	render(w, status, "break.html", p)
}

// doBreak ends a lease, if the user has typed its name and a reason.
func (c *Console) doBreak(w http.ResponseWriter, r *http.Request) {
	if !parse(w, r) {
		return
	}
	name, ok := c.nameOf(w, r)
	if !ok {
		return
	}
	p := &breakPage{Name: name, Typed: r.PostFormValue("typed"), Reason: strings.TrimSpace(r.PostFormValue("reason")), Immediate: r.PostFormValue("immediate") != ""}
	token, err := strconv.ParseInt(r.PostFormValue("token"), 10, 64)
	switch {
	case err != nil || token <= 0:
		p.Problem = "The request has no valid token."
	case p.Typed != name && p.Typed != providerkit.Visible(name):
		p.Problem = "The name that you typed does not match."
	case p.Reason == "":
		p.Problem = "Give a reason, for the holder and the history."
	}
	if p.Problem != "" {
		c.confirm(w, r, http.StatusBadRequest, p)
		return
	}
	_, err = c.manager.Break(r.Context(), name, leasing.BreakOptions{
		IfToken: token, Immediate: p.Immediate, Actor: userOf(r), Reason: p.Reason,
	})
	switch {
	case err == nil:
		// http.Redirect would lose the path that the console is mounted under.
		w.Header().Set("Location", "lease?name="+url.QueryEscape(name))
		w.WriteHeader(http.StatusSeeOther)
	case errors.Is(err, leasing.ErrStale):
		p.Typed = ""
		p.Problem = "The lease with token " + strconv.FormatInt(token, 10) + " has ended, so nothing was done. This page now shows the present lease."
		c.confirm(w, r, http.StatusConflict, p)
	case abstractions.NotApplied(err):
		p.Problem = "The backend refused: " + err.Error()
		c.confirm(w, r, http.StatusBadRequest, p)
	default:
		p.Problem = "The backend did not answer, so the lease may or may not have ended: " + err.Error()
		c.confirm(w, r, http.StatusBadGateway, p)
	}
}

// parse reads the form of a request, or answers with an error.
func parse(w http.ResponseWriter, r *http.Request) bool {
	err := r.ParseForm()
	switch {
	case err == nil:
		return true
	case errors.As(err, new(*http.MaxBytesError)):
		fail(w, http.StatusRequestEntityTooLarge, tooBig)
	case errors.Is(err, os.ErrDeadlineExceeded):
		fail(w, http.StatusRequestTimeout, "The request took too long. Nothing was done.")
	default:
		fail(w, http.StatusBadRequest, "The request can't be read. Nothing was done.")
	}
	return false
}
