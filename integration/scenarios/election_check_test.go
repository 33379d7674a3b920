//go:build unix

package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/integration/scenarios/place"
	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

// The tests feed the checker with runs in which the lease is broken, or the ledger checks no tokens.

func secondsOf(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func at(seconds float64) time.Time { return time.Unix(0, 0).Add(secondsOf(seconds)) }

func checkerOf(reports ...runner.Report) checker {
	f := checker{}
	for _, r := range reports {
		f.see(r)
	}
	return f
}

func TestCheckerFindsTwoLeadersAtATime(t *testing.T) {
	first := runner.Report{Kind: elected, Worker: "w1", Token: 1, At: at(0), Trust: secondsOf(3)}
	tests := map[string]struct {
		checker checker
		closest time.Duration // negative if two led at the same time
	}{
		"after the trust has ended": {checkerOf(first,
			runner.Report{Kind: elected, Worker: "w2", Token: 2, At: at(3.1), Trust: secondsOf(3)}), secondsOf(0.1)},
		"before": {checkerOf(first,
			runner.Report{Kind: elected, Worker: "w2", Token: 2, At: at(2.9), Trust: secondsOf(3)}), secondsOf(-0.1)},
		"after a renewal": {checkerOf(first,
			runner.Report{Kind: wrote, Worker: "w1", Token: 1, At: at(1), Trust: secondsOf(2.5)},
			runner.Report{Kind: elected, Worker: "w2", Token: 2, At: at(3.1), Trust: secondsOf(3)}), secondsOf(-0.4)},
		"of a leader that believes in itself after waking up": {checkerOf(first,
			runner.Report{Kind: elected, Worker: "w2", Token: 2, At: at(3.1), Trust: secondsOf(3)},
			runner.Report{Kind: wrote, Worker: "w1", Token: 1, At: at(5), Trust: secondsOf(0.1)}), secondsOf(-2)},
		"of a leader that has stopped, reported late": {checkerOf(first,
			runner.Report{Kind: elected, Worker: "w2", Token: 2, At: at(1.1), Trust: secondsOf(3)},
			runner.Report{Kind: stopping, Worker: "w1", Token: 1, At: at(1)},
			runner.Report{Kind: resigned, Worker: "w1", Token: 1, At: at(1.2)}), secondsOf(0.1)},
	}
	for name, test := range tests {
		closest, err := test.checker.minTrustGap()
		if closest.Round(time.Millisecond) != test.closest || (err != nil) != (test.closest < 0) {
			t.Errorf("%s: %v, %v", name, closest, err)
		}
	}
	killed := checkerOf(first, runner.Report{Kind: elected, Worker: "w2", Token: 2, At: at(2), Trust: secondsOf(3)})
	killed.end(1, at(1))
	if closest, err := killed.minTrustGap(); err != nil || closest != secondsOf(1) {
		t.Errorf("killed: %v, %v", closest, err)
	}
}

func TestCheckerReadsTheLedger(t *testing.T) {
	c := checkerOf(runner.Report{Kind: elected, Worker: "w1", Token: 1}, runner.Report{Kind: elected, Worker: "w2", Token: 2})
	for want, rows := range map[string]string{
		"":                              "(1, 1, 'w1'), (2, 2, 'w2')",
		"a stale write was accepted":    "(1, 1, 'w1'), (2, 2, 'w2'), (3, 1, 'w1')",
		"w2 did not lead with token 1":  "(1, 1, 'w2'), (2, 2, 'w2')",
		"w1 did not lead with token 99": "(1, 1, 'w1'), (2, 2, 'w2'), (3, 99, 'w1')",
	} {
		p, clear, err := place.SetUp(t.Context(), "ledger", "")
		require.NoError(t, err)
		data, err := p.Open()
		require.NoError(t, err)
		_, err = data.ExecContext(t.Context(), "CREATE TABLE ledger (number bigint, token bigint, writer text); INSERT INTO ledger VALUES "+rows)
		require.NoError(t, err)
		count, err := c.ledgerHolds(t.Context(), data)
		require.NoError(t, errors.Join(data.Close(), clear()))
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 2, count)
	}
}
