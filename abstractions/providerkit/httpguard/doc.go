// Package httpguard has the HTTP client of all providers that speak HTTP. It is for authors of
// providers, and no application imports the package.
//
// # What it promises
//
// [Client.Do] returns an answer only if the server that the request names gave it, whole:
//
//   - It follows no redirect. 301, 302, 303, 307 and 308 are a [RedirectError].
//   - It sends a request once. net/http alone may repeat a read, or a request of which it has
//     written no byte.
//   - A body that is shorter than its Content-Length, that ends in the middle of a chunk, or
//     that is longer than [MaxBody], is an error.
//   - The same holds for the application's own client or transporter: see [Wrap]. A client that
//     follows a redirect or repeats a write is stopped where net/http shows the attempt, and
//     noticed by the answer's Request otherwise.
//   - A request that its context ends does not affect other requests: see [Transport].
//   - Link-local addresses and metadata services are never reached through a proxy: see [Proxy].
//   - Error texts have one line. They show neither the URL nor a credential of the request.
//
// Every error of Do leaves the outcome of the request unknown, unless providerkit.NotSent or
// the end of the request's context says that nothing was sent.
//
// # What it does not promise
//
// It can't tell the service's answer from that of a proxy or gateway before the service. A provider counts an answer
// only by the service's own mark, such as an ETag or a resourceVersion, and makes an error of
// every other answer with [Foreign]. That holds for refusals too: a 404 without the mark does
// not say that a lease is lost.
//
// # How a provider uses it
//
// [New] makes a client with a transport of its own, which the provider closes. [Wrap] takes the
// application's. A Client is the Transporter of Azure's SDK and the HTTPClient of AWS's.
package httpguard
