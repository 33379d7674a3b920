// Package console serves a web page of leases: who holds which name, for how much
// longer, under which token, since when, and what happened to it before; and whether the
// backend answers. The pages are made on the server and kept up to date by server-sent
// events; they can be read without JavaScript, and load nothing from elsewhere.
//
//	page, err := console.New(manager, console.Options{Provider: provider, Hosts: []string{"ops.example.com"}, Access: access})
//	...
//	mux.Handle("/leases/", http.StripPrefix("/leases", page))
//
// [Serve] is the same as a server of its own.
//
// # Who may do what
//
// With the zero Options only this machine may look, and nobody may change anything: a
// request must come from a loopback address, straight and not through a proxy. With
// [Options.Access] set, every request must be somebody's, also one from this machine:
// see [Token] and [ProxyUser], or write a function over the sign-in of your
// application. [Options.AllowBreak] then lets those users end leases.
//
// A page of another site can do nothing with a user's rights. Requests that change
// something are refused if a browser sends them from another origin
// ([net/http.CrossOriginProtection]). Requests for a host that is neither localhost, nor
// an IP address, nor one of [Options.Hosts] are refused, so a name that somebody points
// at this machine (DNS rebinding) does not help. The content policy forbids frames,
// inline scripts and anything from elsewhere.
//
// To end a lease, a user types its name and gives a reason. The request means the
// token that the user saw ([leasing.BreakOptions.IfToken]): a later holder is left
// alone. User and reason go to the holder, into log, events and history.
//
// # What it costs
//
// While somebody looks at the list, the names that are held are listed once for
// everybody, at most every Options.Refresh, and in at most a tenth of the time. While
// somebody looks at one name, the name, its waiters and a page of its history are read
// every Options.Refresh; while somebody looks at the health, the backend is pinged. While
// nobody looks, nothing is sent. Browsers tell when a page is hidden, and it stops
// looking.
//
// The list ends after [MaxNames] names. One page has a hundred; filter and order are
// the server's work.
package console
