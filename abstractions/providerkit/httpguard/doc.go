// Package httpguard has the HTTP client of all providers that speak HTTP. It is for authors of
// providers, and no application imports the package.
//
// # What it promises
//
// [Client.Do] returns an answer only if it is complete and comes from the server that the request names:
//
//   - It follows no redirect. For 301, 302, 303, 307 and 308 it returns a [RedirectError].
//   - It sends a request once. Only net/http may repeat a read, or a request of which it has written no byte.
//   - A body that is shorter than its Content-Length, that ends in the middle of a chunk, or
//     that is longer than [MaxBody], is an error.
//   - The same rules apply to the application's own client or transporter: see [Wrap]. A client
//     that follows a redirect or repeats a write is stopped if net/http traces the attempt, and
//     otherwise detected by the answer's Request.
//   - A request that is ended by its context does not affect other requests: see [Transport].
//   - Link-local addresses and metadata services are never reached through a proxy: see [Proxy].
//   - Error texts have one line. They show neither the URL nor a credential of the request.
//
// Every error of Do leaves the outcome of the request unknown, unless providerkit.NotSent or
// the end of the request's context says that nothing was sent.
//
// # What it does not promise
//
// It can't distinguish the service's answer from that of a proxy or gateway in front of the service. A provider
// accepts an answer only with the service's own mark, such as an ETag or a resourceVersion, and turns every other
// answer into an error with [Foreign]. That holds for refusals too: a 404 without the mark does not say that a
// lease is lost.
//
// # How a provider uses it
//
// [New] makes a client with a transport of its own, which the provider closes. [Wrap] uses the
// application's client. A Client is the Transporter of Azure's SDK and the HTTPClient of AWS's.
package httpguard
