// Package netfault causes network faults between a real client and a real server,
// with a proxy on loopback for their connections. Package chaos injects faults into
// requests inside a program; netfault works below the client library, where timeouts,
// pools and reconnects take effect. To stop and kill servers, use
// abstractions/servertest.
//
//	proxy, err := netfault.Start("127.0.0.1:6379")
//	provider, err := redislease.OpenURL(ctx, "redis://"+proxy.Addr())
//	...
//	err = proxy.Set(netfault.Conditions{RepliesLost: true}) // applied, but the client gets no reply
//	err = proxy.Heal()
//	proxy.Reset()
//
// The faults and their causes in production:
//
//	Latency, Jitter  a long route, a busy link
//	RequestsLost     the path to the server is cut: requests get no reply
//	RepliesLost      the path back is cut: requests take effect but get no reply
//	Partitioned      both paths are cut; data arrives late, when the cut is over,
//	                 as TCP sends it again
//	Down             no process listens: the server or its host is restarting
//	Reset            a firewall or a balancer drops the connections and sends resets
//	HalfOpen         the server has lost its connections and the client is not notified:
//	                 a failover, a NAT table that was cleared
//
// The proxy is for tests: one process, loopback, no authentication.
package netfault
