package sequence

import (
	"cmp"
	"fmt"
	"time"
)

// Sample is a measurement of a stream at one moment. The counters may start at any value and restart
// from 0. The other fields are gauges.
type Sample struct {
	At                                  time.Time
	Committed, Expired                  int64 // numbers
	RecoverySuccesses, RecoveryFailures int64
	ExpiredNow, Gaps                    int           // Status.Expired and Status.Gaps
	BarrierWait                         time.Duration // the longest since the previous sample
}

// Level is the urgency of an alert.
type Level string

// The levels.
const (
	Warning  Level = "warning"
	Critical Level = "critical"
)

// Alert describes an active alert.
type Alert struct {
	Level Level
	Name  string
	Value float64 // a share, a count, or seconds
	Limit float64
	Text  string
}

// AlertRules are the limits of alerts. Zero fields have their defaults.
type AlertRules struct {
	Window           time.Duration // older samples do not count. Default 1 hour
	Least            int64         // a rate is checked only if the window has at least this many leases, or recoveries. Default 20
	ExpiryRate       float64       // expired / (committed + expired). Default 0.05
	ExpiredNow       int           // leases that have run out at the same time; the alert is critical. Default 10
	RecoveryFailures float64       // failures / recoveries. Default 0.01
	Gaps             int           // Default 100
	BarrierWait      time.Duration // Default 5 s
}

// Check returns the alerts of the window that ends at now. The samples must be in chronological order.
func (r AlertRules) Check(now time.Time, samples []Sample) (alerts []Alert) {
	r.Window, r.Least = cmp.Or(r.Window, time.Hour), cmp.Or(r.Least, 20)
	r.ExpiryRate, r.ExpiredNow = cmp.Or(r.ExpiryRate, .05), cmp.Or(r.ExpiredNow, 10)
	r.RecoveryFailures, r.Gaps = cmp.Or(r.RecoveryFailures, .01), cmp.Or(r.Gaps, 100)
	r.BarrierWait = cmp.Or(r.BarrierWait, 5*time.Second)
	for len(samples) > 0 && now.Sub(samples[0].At) > r.Window {
		samples = samples[1:]
	}
	if len(samples) == 0 {
		return nil
	}
	var committed, expired, recovered, failed int64
	var wait time.Duration
	for i, s := range samples[1:] {
		before := samples[i]
		committed += growth(before.Committed, s.Committed)
		expired += growth(before.Expired, s.Expired)
		recovered += growth(before.RecoverySuccesses, s.RecoverySuccesses)
		failed += growth(before.RecoveryFailures, s.RecoveryFailures)
		wait = max(wait, s.BarrierWait)
	}
	latest := samples[len(samples)-1]
	check := func(level Level, name string, value, limit float64, text string) {
		if value > limit {
			alerts = append(alerts, Alert{level, name, value, limit, fmt.Sprintf(text, value, limit)})
		}
	}
	if all := committed + expired; all >= r.Least {
		check(Warning, "expiry_rate", float64(expired)/float64(all), r.ExpiryRate, "a share of %.3g of the leases has run out, and the limit is %.3g")
	}
	check(Critical, "expired_now", float64(latest.ExpiredNow), float64(r.ExpiredNow), "%.0f leases have run out at once, and the limit is %.0f")
	if all := recovered + failed; all >= r.Least {
		check(Warning, "recovery_failures", float64(failed)/float64(all), r.RecoveryFailures, "a share of %.3g of the recoveries has failed, and the limit is %.3g")
	}
	check(Warning, "gaps", float64(latest.Gaps), float64(r.Gaps), "%.0f gaps are open, and the limit is %.0f")
	check(Warning, "barrier_wait", wait.Seconds(), r.BarrierWait.Seconds(), "a writer has waited %.1f s at the barrier, and the limit is %.1f s")
	return alerts
}

// growth returns the increase of a counter. A smaller value means that the counter restarted from 0
// with its process.
func growth(before, after int64) int64 {
	if after < before {
		return after
	}
	return after - before
}

// Efficiency returns the fraction of leases that were committed, or 1 if there were no leases.
func Efficiency(committed, expired int64) float64 {
	if committed+expired == 0 {
		return 1
	}
	return float64(committed) / float64(committed+expired)
}
