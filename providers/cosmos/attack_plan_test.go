package cosmoslease

import (
	"time"

	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"pgregory.net/rapid"
)

// plan is a run of the attack: the turns of each client, and the faults of requests.
type plan struct {
	skew    time.Duration // the difference between the service's clock and the clients'
	replica time.Duration // the difference between the clocks of _ts and Date
	expire  bool          // Options.ExpireDocuments
	clients [][]turn
	breaks  []time.Duration    // pauses between breaks of any lease, by new processes
	faults  []cosmostest.Fault // the faults of the first requests, in order
}

// turn is one acquire of a client, its renewals and its end.
type turn struct {
	pause    time.Duration
	ttl      time.Duration
	renewals int
	again    int           // the number of renewals that are acquires of the same ID
	every    time.Duration // the interval of renewals
	end      ending
}

// ending is the end of a turn.
type ending int

const (
	releases ending = iota
	runsOut
	isBroken    // by a new process
	isBrokenNow // by an immediate break
	isForgotten // is released, and the document is deleted some time later
)

func drawPlan(t *rapid.T) plan {
	seconds := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most*1000).Draw(t, name)) * time.Millisecond
	}
	p := plan{
		skew:    rapid.SampledFrom([]time.Duration{0, 14 * time.Minute, -7 * time.Minute, 333 * time.Millisecond}).Draw(t, "skew"),
		replica: time.Duration(rapid.IntRange(-2000, 2000).Draw(t, "replica")) * time.Millisecond,
		expire:  rapid.Bool().Draw(t, "expire"),
	}
	for range rapid.IntRange(2, 4).Draw(t, "clients") {
		var turns []turn
		for range rapid.IntRange(1, 5).Draw(t, "turns") {
			turns = append(turns, turn{
				pause: seconds("pause", 12), ttl: minTTL + seconds("ttl", 5), every: seconds("every", 6),
				renewals: rapid.IntRange(0, 4).Draw(t, "renewals"), again: rapid.IntRange(0, 3).Draw(t, "again"),
				end: ending(rapid.IntRange(0, 4).Draw(t, "end")),
			})
		}
		p.clients = append(p.clients, turns)
	}
	for range rapid.IntRange(0, 3).Draw(t, "breaks") {
		p.breaks = append(p.breaks, seconds("before break", 20))
	}
	for range rapid.IntRange(0, 60).Draw(t, "faults") {
		p.faults = append(p.faults, drawFault(t))
	}
	return p
}

func drawFault(t *rapid.T) cosmostest.Fault {
	delay := time.Duration(rapid.IntRange(1, 9000).Draw(t, "delay")) * time.Millisecond
	status := rapid.SampledFrom([]int{408, 410, 429, 449, 500, 503}).Draw(t, "status")
	switch rapid.IntRange(0, 9).Draw(t, "fault") {
	case 0:
		return cosmostest.Fault{Drop: true}
	case 1:
		return cosmostest.Fault{Drop: true, Applied: true}
	case 2:
		return cosmostest.Fault{Status: status}
	case 3: // 429 means that the write was not applied
		return cosmostest.Fault{Status: status, Applied: status != 429}
	case 4:
		return cosmostest.Fault{Delay: delay, Late: true}
	case 5:
		return cosmostest.Fault{DelayReply: delay}
	case 6:
		return cosmostest.Fault{Delay: delay, Late: true, Applied: true, Drop: true}
	case 7:
		return cosmostest.Fault{Stale: true, Lag: rapid.IntRange(1, 3).Draw(t, "lag")}
	}
	return cosmostest.Fault{}
}
