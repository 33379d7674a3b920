// Package netfault makes real faults between a real client and a real server: a proxy
// on loopback through which their connections go. What package chaos does to requests
// inside a program, this does below the client library, where timeouts, pools and
// reconnects are. For processes that are stopped and killed there is
// abstractions/servertest.
//
//	proxy, err := netfault.Start("127.0.0.1:6379")
//	provider, err := redislease.OpenURL(ctx, "redis://"+proxy.Addr())
//	...
//	err = proxy.Set(netfault.Conditions{RepliesLost: true}) // applied, but nobody hears of it
//	err = proxy.Heal()
//	proxy.Reset()
//
// What each fault is in production:
//
//	Latency, Jitter  a long way, a busy link
//	RequestsLost     the path to the server is cut; what the client hears is silence
//	RepliesLost      the path back is cut: requests take effect, and look lost
//	Partitioned      a cut in both ways; what was sent arrives when it is over, late,
//	                 as TCP sends it again
//	Down             nobody listens: the server or its host is restarting
//	Reset            a firewall or a balancer forgets the connections and says so
//	HalfOpen         the server has lost its connections and the client is not told:
//	                 a failover, a NAT table that was cleared
//
// It is for tests: one process, loopback, no authentication.
package netfault
