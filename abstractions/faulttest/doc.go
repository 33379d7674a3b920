// Package faulttest has checks of a provider whose server or network fails. [LeasesEndInTime] and [LossIsReported] are for
// tests that start servers with package servertest and then kill, pause or isolate a server. A [SwitchOver] moves the endpoint of
// clients to another server, or drops their connections silently. A [Wire] sits between a client and its HTTP server.
package faulttest
