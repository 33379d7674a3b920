// Package console serves a web page of leases. It shows each name's holder, remaining
// time, token, time of acquisition and history, and whether the backend answers. The
// pages are rendered on the server and kept up to date by server-sent events; they can
// be read without JavaScript, and load nothing from elsewhere.
//
//	page, err := console.New(manager, console.Options{Provider: provider, Hosts: []string{"ops.example.com"}, Access: access})
//	...
//	mux.Handle("/leases/", http.StripPrefix("/leases", page))
//
// [Serve] runs the console in a server of its own.
//
// # Permissions
//
// With the zero Options only this machine can read the pages, and no request can change anything: a request must come
// from a loopback address or over a Unix socket, and name localhost, a loopback address or one of [Options.Hosts].
// Requests over HTTP/1.0, or with any header that proxies add, are refused, whatever the header's value. A proxy that
// adds no header is not detected: set [Options.Access] behind any proxy or tunnel. With [Options.Access] every request
// needs a user, even from this machine: see [Token] and [ProxyUser], or write a function that uses your application's
// sign-in. [Options.AllowBreak] then lets these users end leases.
//
// Pages of other sites can't use a user's permissions. Requests that change something
// are refused if a browser sends them from another origin
// (net/http.CrossOriginProtection). Requests for a host that is neither localhost, nor
// an IP address, nor one of [Options.Hosts] are refused, which prevents DNS rebinding.
// The content security policy forbids frames, inline scripts and external resources.
//
// To end a lease, a user types its name and gives a reason. The request applies only to the
// token that the user saw ([leasing.BreakOptions.IfToken]), so a later holder is not affected.
// The user and the reason are shown to the holder, and recorded in the log, the events and the
// history.
//
// GET /healthz, below the path of the console, answers probes without sign-in: 200, or 503 after [Console.Close].
//
// # What it costs
//
// While the list is open in a browser, the held names are listed once for all viewers, at most once every
// Options.Refresh, and listing takes at most a tenth of the time. While a name is open, the name, its waiters and
// a page of its history are read every Options.Refresh, once for all viewers. While the health page is open, the backend is
// pinged. Apart from these requests, and those to end a lease, the console sends nothing to the backend. A part of a page is
// rendered once for all its viewers, and few parts are rendered at a time. All users together have up to 200 live pages. The
// body of a request may be up to 64 KiB long, and must arrive within 10 s. A page that is hidden in its browser stops
// refreshing.
//
// The list ends after [MaxNames] names. A page shows a hundred of them; the server
// filters and sorts.
package console
