//go:build unix

package main

import (
	"strings"
	"testing"
	"time"
)

// What a demo with a broken lease, or a ledger without its check, would report.

func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func refereeOf(reports ...report) *referee {
	f := newReferee()
	for _, r := range reports {
		f.see(r)
	}
	return f
}

func TestRefereeFindsTwoLeadersAtATime(t *testing.T) {
	first := report{Kind: elected, Worker: "w1", Token: 1, At: at(0), Trust: at(3)}
	tests := map[string]struct {
		referee *referee
		closest time.Duration // negative: two at a time
	}{
		"after the trust has ended": {refereeOf(first,
			report{Kind: elected, Worker: "w2", Token: 2, At: at(3.1), Trust: at(3)}), at(0.1)},
		"before": {refereeOf(first,
			report{Kind: elected, Worker: "w2", Token: 2, At: at(2.9), Trust: at(3)}), at(-0.1)},
		"after a renewal": {refereeOf(first,
			report{Kind: wrote, Worker: "w1", Token: 1, At: at(1), Trust: at(2.5), Row: 1},
			report{Kind: elected, Worker: "w2", Token: 2, At: at(3.1), Trust: at(3)}), at(-0.4)},
		"of a leader that believes in itself after waking up": {refereeOf(first,
			report{Kind: elected, Worker: "w2", Token: 2, At: at(3.1), Trust: at(3)},
			report{Kind: wrote, Worker: "w1", Token: 1, At: at(5), Trust: at(0.1), Row: 1}), at(-2)},
		"of a leader that has stopped, told late": {refereeOf(first,
			report{Kind: elected, Worker: "w2", Token: 2, At: at(1.1), Trust: at(3)},
			report{Kind: stopping, Worker: "w1", Token: 1, At: at(1)},
			report{Kind: resigned, Worker: "w1", Token: 1, At: at(1.2)}), at(0.1)},
	}
	for name, test := range tests {
		closest, err := test.referee.trustApart()
		if closest.Round(time.Millisecond) != test.closest || (err != nil) != (test.closest < 0) {
			t.Errorf("%s: %v, %v", name, closest, err)
		}
	}
	killed := refereeOf(first, report{Kind: elected, Worker: "w2", Token: 2, At: at(2), Trust: at(3)})
	killed.killed(1, at(1))
	if closest, err := killed.trustApart(); err != nil || closest != at(1) {
		t.Errorf("killed: %v, %v", closest, err)
	}
}

func TestRefereeReadsTheLedger(t *testing.T) {
	terms := []report{
		{Kind: elected, Worker: "w1", Token: 1}, {Kind: elected, Worker: "w2", Token: 2},
		{Kind: wrote, Worker: "w2", Token: 2, Row: 2},
	}
	w1, w2 := row{1, 1, "w1"}, row{2, 2, "w2"}
	for want, test := range map[string]struct {
		rows []row
		more []report
	}{
		"":                              {rows: []row{w1, w2}},
		"a stale write was accepted":    {rows: []row{w1, w2, {3, 1, "w1"}}},
		"w2 did not lead with token 1":  {rows: []row{{1, 1, "w2"}, w2}},
		"w1 did not lead with token 99": {rows: []row{w1, w2, {3, 99, "w1"}}},
		"is not in the ledger":          {rows: []row{w1}},
		"after its lease was lost":      {rows: []row{w1, w2}, more: []report{{Kind: late, Worker: "w1", Token: 1, Row: 3}}},
	} {
		err := refereeOf(append(terms, test.more...)...).ledgerHolds(test.rows)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestTakeOversAreHeldAgainstTheLease(t *testing.T) {
	for _, test := range []struct {
		takeOver
		want string
	}{
		{takeOver{beyond: at(0.01)}, ""},
		{takeOver{beyond: at(-0.01)}, "before the lease had run out"},
		{takeOver{beyond: at(-1), released: true}, ""},
		{takeOver{beyond: at(0.01), released: true}, "by itself"},
	} {
		err := test.check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test.takeOver, err)
		}
	}
}
