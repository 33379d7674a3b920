package proxy

import (
	"fmt"
	"net/http"
	"sync/atomic"
)

// Fault is an answer from a proxy in place of the server's.
type Fault struct {
	name       string
	status     int // of the answer; 0: no answer
	kind, body string
	Cut        bool // the fault is the server's answer, without its end
	Writes     bool // only writes get the fault
	Applied    bool // the server gets the request nevertheless
	Answered   atomic.Int64
}

// String names the fault.
func (f *Fault) String() string {
	text := f.name
	if f.Writes {
		text += ", to writes"
	}
	if f.Applied {
		text += " that are applied"
	}
	return text
}

// Like returns a copy of the fault with a count of 0, for writes only or for all requests.
func (f *Fault) Like(writes, applied bool) *Fault {
	return &Fault{name: f.name, status: f.status, kind: f.kind, body: f.body, Cut: f.Cut, Writes: writes, Applied: applied}
}

// Silent reports whether the fault sends no answer.
func (f *Fault) Silent() bool { return f.status == 0 && !f.Cut }

// Redirects returns a redirect of each kind.
func Redirects() (all []*Fault) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		all = append(all, &Fault{name: fmt.Sprint("redirect ", status), status: status})
	}
	return all
}

const (
	page = "<!DOCTYPE html>\n<html><head><title>Sorry</title></head>\n<body>Back soon.</body></html>\n"
	html = "text/html; charset=utf-8"
)

// Successes returns answers that report success.
func Successes() []*Fault {
	all := []*Fault{
		{name: "an empty 200", status: 200}, {name: "an empty 201", status: 201}, {name: "204", status: 204},
		{name: "a page", status: 200, kind: html, body: page},
	}
	for _, body := range []string{`{"status":"maintenance"}`, "{}", "[]", "null"} {
		all = append(all, &Fault{name: "200 " + body, status: 200, kind: "application/json", body: body})
	}
	return all
}

// Refusals returns answers that refuse a request.
func Refusals() (all []*Fault) {
	for _, status := range []int{404, 403, 401, 409, 412, 410, 400} {
		all = append(all,
			&Fault{name: fmt.Sprint("a page with ", status), status: status, kind: html, body: page},
			&Fault{name: fmt.Sprint("a text with ", status), status: status, kind: "text/plain", body: "404 page not found\n"})
	}
	return all
}

// Interruptions returns two faults: half an answer, and silence.
func Interruptions() []*Fault {
	return []*Fault{{name: "half an answer", Cut: true}, {name: "silence"}}
}
