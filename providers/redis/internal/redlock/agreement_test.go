package redlock

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/stretchr/testify/assert"
)

// The attempts below have the number 7; earlier attempts have smaller numbers.
const ours = 7

// fresh is the vote of a node for this attempt.
func fresh(token int64) vote { return vote{choice: forUs, token: token, made: ours, before: 10} }

// old is the vote of a node for an earlier attempt.
func old(token int64) vote { return vote{choice: forUs, token: token, made: 3, before: 10} }

// renewed is the vote of a node that has renewed the lease.
func renewed(token int64) vote { return vote{choice: forUs, token: token, before: 10} }

func after(v vote, before int64) vote {
	v.before = before
	return v
}

func other(id string) vote {
	return vote{choice: forOther, holder: id, held: &abstractions.HeldError{Holder: abstractions.Record{Fingerprint: abstractions.FingerprintOf(id), Held: true}}}
}

var errRefused = providerkit.MarkNotApplied(abstractions.ErrUnavailable)

var (
	pendingVote   = vote{pending: true}
	pendingSilent = vote{pending: true, silent: true}
	failedVote    = vote{choice: noVote, err: errSilent, unsure: true}
	refusedVote   = vote{choice: noVote, err: errRefused}
	waiterVote    = vote{choice: forWaiter}
	endedVote     = vote{choice: claimEnded}
)

// tallyOf makes the tally of this attempt with the servers in the shared order.
func tallyOf(votes ...vote) tally {
	t := tally{votes: votes, quorum: len(votes)/2 + 1, try: ours}
	for i := range votes {
		t.order = append(t.order, i)
	}
	return t
}

func asked(v vote) vote {
	v.pending = true
	return v
}

func TestRedlockDecision(t *testing.T) {
	for what, c := range map[string]struct {
		votes []vote
		want  decision
		token int64
		won   bool
	}{
		"nobody has answered":                    {[]vote{pendingVote, pendingVote, pendingVote}, undecided, 0, false},
		"one of three":                           {[]vote{fresh(20), pendingVote, pendingVote}, undecided, 0, false},
		"a majority with the same token":         {[]vote{fresh(20), fresh(20), pendingVote}, agreed, 20, true},
		"a majority with two tokens":             {[]vote{fresh(20), fresh(22), pendingVote}, agreed, 22, false},
		"three tokens of five":                   {[]vote{fresh(20), fresh(22), fresh(21), pendingVote, failedVote}, agreed, 22, false},
		"two of five are no majority":            {[]vote{fresh(20), fresh(20), pendingVote, failedVote, failedVote}, undecided, 0, false},
		"a majority refuses":                     {[]vote{other("x"), other("x"), pendingVote}, outvoted, 0, false},
		"a split vote":                           {[]vote{fresh(20), other("x"), other("y")}, outvoted, 0, false},
		"a refusal decides nothing yet":          {[]vote{other("x"), pendingVote, failedVote}, undecided, 0, false},
		"two that answer disagree":               {[]vote{fresh(20), other("x"), failedVote}, outvoted, 0, false},
		"and one is silent as before":            {[]vote{fresh(20), other("x"), pendingSilent}, outvoted, 0, false},
		"but the claim may live":                 {[]vote{old(20), other("x"), refusedVote}, unreachable, 0, false},
		"it may be for us":                       {[]vote{fresh(20), other("x"), pendingVote}, undecided, 0, false},
		"too few answer":                         {[]vote{fresh(20), fresh(21), failedVote, failedVote, failedVote}, unreachable, 0, false},
		"too few answer to disagree":             {[]vote{fresh(20), other("x"), failedVote, failedVote, failedVote}, unreachable, 0, false},
		"three of five that answer disagree":     {[]vote{fresh(20), fresh(21), other("x"), failedVote, failedVote}, outvoted, 0, false},
		"all fail":                               {[]vote{failedVote, refusedVote, failedVote}, unreachable, 0, false},
		"a majority fails":                       {[]vote{failedVote, fresh(20), failedVote}, unreachable, 0, false},
		"a failure decides nothing yet":          {[]vote{failedVote, failedVote, pendingVote}, undecided, 0, false},
		"released":                               {[]vote{fresh(20), fresh(20), endedVote}, ended, 0, false},
		"a waiter's turn":                        {[]vote{waiterVote, fresh(20), fresh(20)}, queued, 0, false},
		"only the first node's queue counts":     {[]vote{fresh(20), waiterVote, fresh(20)}, agreed, 20, true},
		"the first that answers":                 {[]vote{failedVote, waiterVote, fresh(20)}, queued, 0, false},
		"the first has not answered":             {[]vote{pendingVote, waiterVote, fresh(20)}, undecided, 0, false},
		"a claim that lives does not queue":      {[]vote{waiterVote, old(20), old(20)}, agreed, 20, true},
		"an earlier attempt's agreement":         {[]vote{old(20), old(20), pendingVote}, agreed, 20, true},
		"that of a lease that was renewed":       {[]vote{renewed(20), renewed(20), fresh(25)}, agreed, 20, true},
		"one token, of this attempt and another": {[]vote{old(20), fresh(20), pendingVote}, agreed, 20, true},
		"two tokens, of which one may be agreed": {[]vote{old(20), old(21), pendingVote}, undecided, 0, false},
		"and nobody knows":                       {[]vote{old(20), old(21), failedVote}, agreed, 21, false},
	} {
		tally := tallyOf(c.votes...)
		got, token, won := tally.decide()
		assert.Equal(t, c.want, got, what)
		assert.Equal(t, c.token, token, what)
		assert.Equal(t, c.won, won, what)
	}
}

// An attempt uses the token of a majority, and otherwise the highest token, which is not
// certain while another attempt may have agreed on a different token.
func TestTrap_T13_RedlockAttemptsOfOneClaimAgree(t *testing.T) {
	for what, c := range map[string]struct {
		votes   []vote
		token   int64
		certain bool
	}{
		"all new":                              {[]vote{fresh(20), fresh(21), pendingVote}, 21, true},
		"one may have been counted before":     {[]vote{old(20), fresh(21), pendingVote}, 21, false},
		"both may have been counted before":    {[]vote{old(20), old(21), pendingVote}, 21, false},
		"the third decides":                    {[]vote{old(20), old(21), fresh(22)}, 22, true},
		"the third confirms the latest":        {[]vote{old(20), old(21), old(20)}, 20, true},
		"it was refused, so none was":          {[]vote{old(20), old(21), other("x")}, 21, true},
		"it may know, but does not answer":     {[]vote{old(20), old(21), failedVote}, 21, false},
		"it is the lower one":                  {[]vote{old(22), old(20), old(20)}, 20, true},
		"others have held the name since":      {[]vote{old(20), after(fresh(31), 30), after(fresh(32), 30)}, 32, true},
		"or somebody got a node in vain":       {[]vote{old(20), old(20), after(fresh(31), 30)}, 20, true},
		"a node that is silent may say so":     {[]vote{old(20), after(fresh(31), 30), pendingVote}, 31, false},
		"it may know, but casts no vote":       {[]vote{old(20), fresh(25), refusedVote}, 25, false},
		"it was renewed":                       {[]vote{renewed(20), fresh(25), pendingVote}, 25, false},
		"two of five may know":                 {[]vote{old(20), fresh(25), fresh(26), pendingVote, pendingVote}, 26, false},
		"three of five know another":           {[]vote{old(20), fresh(25), fresh(25), fresh(25), pendingVote}, 25, true},
		"too few can have counted it, of five": {[]vote{old(20), fresh(25), fresh(26), other("x"), pendingVote}, 26, true},
		"only what it has made itself counts":  {[]vote{old(20), fresh(20), fresh(25), other("x"), pendingVote}, 25, true},
	} {
		tally := tallyOf(c.votes...)
		token, certain := tally.choose()
		assert.Equal(t, c.token, token, what)
		assert.Equal(t, c.certain, certain, what)
	}
}

// An attempt keeps the token that it has sent for confirmation.
func TestRedlockAttemptHasOneToken(t *testing.T) {
	tally := tallyOf(fresh(20), fresh(21), fresh(30))
	tally.token = 21
	where, token, won := tally.decide()
	assert.Equal(t, agreed, where)
	assert.Equal(t, int64(21), token)
	assert.False(t, won)
}

func TestRedlockMayLive(t *testing.T) {
	for what, c := range map[string]struct {
		votes []vote
		want  bool
	}{
		"all ours":                       {[]vote{fresh(20), fresh(20), other("x")}, false},
		"one of an earlier attempt":      {[]vote{old(20), fresh(20), other("x")}, false},
		"two of an earlier attempt":      {[]vote{old(20), old(20), other("x")}, true},
		"one, and one that is silent":    {[]vote{old(20), failedVote, fresh(20)}, true},
		"one, and one that was not sent": {[]vote{old(20), refusedVote, fresh(20)}, true},
		"one, and one that is not asked": {[]vote{old(20), {}, fresh(20)}, true},
		"one, and one that is asked":     {[]vote{old(20), asked(vote{}), fresh(20)}, true},
		"ours, renewed":                  {[]vote{renewed(20), renewed(20), other("x")}, true},
	} {
		tally := tallyOf(c.votes...)
		assert.Equal(t, c.want, tally.mayHaveWon(), what)
	}
}

// The first server in the order that all processes share decides which waiter is next.
func TestTrap_T77_RedlockTurnIsTheFirstServersInTheSharedOrder(t *testing.T) {
	votes := []vote{fresh(20), waiterVote, fresh(20)}
	for what, c := range map[string]struct {
		order []int
		want  decision
	}{
		"the one that is reserved": {[]int{1, 0, 2}, queued},
		"another":                  {[]int{2, 1, 0}, agreed},
	} {
		tally := tallyOf(votes...)
		tally.order = c.order
		got, _, _ := tally.decide()
		assert.Equal(t, c.want, got, what)
	}
}
