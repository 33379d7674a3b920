package redlock

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/stretchr/testify/assert"
)

// The attempts below are number 7; earlier ones have smaller numbers.
const ours = 7

// fresh is a node that this attempt has got.
func fresh(token int64) vote {
	return vote{stance: forUs, token: token, made: ours, promise: ours, before: 10}
}

// old is a node that an earlier attempt has got.
func old(token int64) vote {
	return vote{stance: forUs, token: token, made: 3, promise: ours, before: 10}
}

// won is a node that has confirmed the token of an earlier attempt.
func won(token, try int64) vote { return confirmed(old(token), try) }

func confirmed(v vote, try int64) vote {
	v.won = try
	return v
}

func after(v vote, before int64) vote {
	v.before = before
	return v
}

// passed is a node that a later attempt has asked since.
func passed(v vote) vote {
	v.promise = 9
	return v
}

func other(id string) vote {
	return vote{stance: forOther, held: &abstractions.HeldError{Holder: abstractions.Record{ID: id, Held: true}}}
}

var errRefused = providerkit.MarkNotApplied(abstractions.ErrUnavailable)

var (
	unheard    = vote{pending: true}
	speechless = vote{pending: true, silent: true}
	dead       = vote{stance: noVote, err: errSilent, unsure: true}
	refusal    = vote{stance: noVote, err: errRefused}
	waiting    = vote{stance: forWaiter}
	over       = vote{stance: overOver}
)

func asked(v vote) vote {
	v.pending = true
	return v
}

func TestRedlockPoise(t *testing.T) {
	for what, c := range map[string]struct {
		votes   []vote
		want    poise
		token   int64
		settled bool
	}{
		"nobody has answered":                     {[]vote{unheard, unheard, unheard}, undecided, 0, false},
		"one of three":                            {[]vote{fresh(20), unheard, unheard}, undecided, 0, false},
		"a majority with the same token":          {[]vote{fresh(20), fresh(20), unheard}, agreed, 20, true},
		"a majority with two tokens":              {[]vote{fresh(20), fresh(22), unheard}, agreed, 22, false},
		"three tokens of five":                    {[]vote{fresh(20), fresh(22), fresh(21), unheard, dead}, agreed, 22, false},
		"two of five are no majority":             {[]vote{fresh(20), fresh(20), unheard, dead, dead}, undecided, 0, false},
		"a majority refuses":                      {[]vote{other("x"), other("x"), unheard}, outvoted, 0, false},
		"a split vote":                            {[]vote{fresh(20), other("x"), other("y")}, outvoted, 0, false},
		"a refusal decides nothing yet":           {[]vote{other("x"), unheard, dead}, undecided, 0, false},
		"two that answer disagree":                {[]vote{fresh(20), other("x"), dead}, outvoted, 0, false},
		"and one is silent as before":             {[]vote{fresh(20), other("x"), speechless}, outvoted, 0, false},
		"but the claim may live":                  {[]vote{old(20), other("x"), refusal}, unreachable, 0, false},
		"it may be for us":                        {[]vote{fresh(20), other("x"), unheard}, undecided, 0, false},
		"too few answer":                          {[]vote{fresh(20), fresh(21), dead, dead, dead}, unreachable, 0, false},
		"too few answer to disagree":              {[]vote{fresh(20), other("x"), dead, dead, dead}, unreachable, 0, false},
		"three of five that answer disagree":      {[]vote{fresh(20), fresh(21), other("x"), dead, dead}, outvoted, 0, false},
		"all fail":                                {[]vote{dead, refusal, dead}, unreachable, 0, false},
		"a majority fails":                        {[]vote{dead, fresh(20), dead}, unreachable, 0, false},
		"a failure decides nothing yet":           {[]vote{dead, dead, unheard}, undecided, 0, false},
		"released":                                {[]vote{fresh(20), fresh(20), over}, ended, 0, false},
		"a waiter's turn":                         {[]vote{waiting, fresh(20), fresh(20)}, queued, 0, false},
		"only the first node's queue counts":      {[]vote{fresh(20), waiting, fresh(20)}, agreed, 20, true},
		"the first that answers":                  {[]vote{dead, waiting, fresh(20)}, queued, 0, false},
		"the first has not answered":              {[]vote{unheard, waiting, fresh(20)}, undecided, 0, false},
		"a claim that lives does not queue":       {[]vote{waiting, won(20, 3), won(20, 3)}, agreed, 20, true},
		"an earlier attempt's agreement":          {[]vote{won(20, 3), won(20, 3), unheard}, agreed, 20, true},
		"the same token by two agreements":        {[]vote{won(20, 3), won(20, 4), unheard}, agreed, 20, false},
		"an agreement is learned although passed": {[]vote{passed(won(20, 3)), passed(won(20, 3)), unheard}, agreed, 20, true},
		"but not a token that nodes made up":      {[]vote{passed(old(20)), passed(old(20)), unheard}, overtaken, 0, false},
		"a later attempt has the majority":        {[]vote{passed(old(20)), passed(old(20)), other("x")}, overtaken, 0, false},
		"it is known to a later attempt only":     {[]vote{old(20), old(21), passed(won(22, 8))}, overtaken, 0, false},
		"a later attempt has one, we may win":     {[]vote{passed(old(20)), fresh(20), unheard}, undecided, 0, false},
		"a later attempt has one, we win":         {[]vote{passed(old(20)), fresh(20), fresh(20)}, agreed, 20, true},
	} {
		tally := tally{votes: c.votes, quorum: len(c.votes)/2 + 1, try: ours}
		got, token, settled := tally.poise()
		assert.Equal(t, c.want, got, what)
		assert.Equal(t, c.token, token, what)
		assert.Equal(t, c.settled, settled, what)
	}
}

// An attempt takes over the token that another may have agreed on, and otherwise
// the highest.
func TestTrap_T13_RedlockAttemptsOfOneClaimAgree(t *testing.T) {
	for what, c := range map[string]struct {
		votes   []vote
		token   int64
		certain bool
	}{
		"all new":                              {[]vote{fresh(20), fresh(21), unheard}, 21, true},
		"one may have been counted before":     {[]vote{old(20), fresh(21), unheard}, 20, true},
		"both may have been counted before":    {[]vote{old(20), old(21), unheard}, 21, false},
		"the third tells which":                {[]vote{old(20), old(21), fresh(22)}, 22, true},
		"the third tells that it was this one": {[]vote{old(20), old(21), old(20)}, 20, true},
		"it was refused, so none was":          {[]vote{old(20), old(21), other("x")}, 21, true},
		"it may know, but does not answer":     {[]vote{old(20), old(21), dead}, 21, false},
		"confirmed goes before made up":        {[]vote{won(20, 3), fresh(21), fresh(22)}, 20, true},
		"the latest of two":                    {[]vote{won(22, 3), won(20, 4), unheard}, 20, true},
		"others have held the name since":      {[]vote{won(20, 3), after(fresh(31), 30), after(fresh(32), 30)}, 32, true},
		"or somebody got a node in vain":       {[]vote{won(20, 3), won(20, 3), after(fresh(31), 30)}, 20, true},
		"a node that is silent may say so":     {[]vote{won(20, 3), after(fresh(31), 30), unheard}, 31, false},
		"it may know, but casts no vote":       {[]vote{old(20), fresh(25), refusal}, 20, true},
		"the others may have counted it":       {[]vote{old(20), fresh(25), fresh(25), refusal, refusal}, 20, true},
		"one was made up before, of five":      {[]vote{old(20), fresh(25), fresh(25), unheard, unheard}, 20, true},
		"too few can have counted it, of five": {[]vote{old(20), fresh(25), fresh(25), other("x"), unheard}, 25, true},
		"only what it has made itself counts":  {[]vote{old(20), fresh(20), fresh(25), other("x"), unheard}, 25, true},
	} {
		tally := tally{votes: c.votes, quorum: len(c.votes)/2 + 1, try: ours}
		token, certain := tally.choose()
		assert.Equal(t, c.token, token, what)
		assert.Equal(t, c.certain, certain, what)
	}
}

// Once an attempt has asked for a token to be confirmed it stays with that.
func TestRedlockAttemptHasOneToken(t *testing.T) {
	tally := tally{votes: []vote{fresh(20), fresh(21), fresh(30)}, quorum: 2, try: ours, token: 21}
	where, token, settled := tally.poise()
	assert.Equal(t, agreed, where)
	assert.Equal(t, int64(21), token)
	assert.False(t, settled)
}

func TestRedlockMayLive(t *testing.T) {
	for what, c := range map[string]struct {
		votes []vote
		want  bool
	}{
		"all ours":                       {[]vote{fresh(20), fresh(20), other("x")}, false},
		"one of an earlier attempt":      {[]vote{old(20), fresh(20), other("x")}, false},
		"two of an earlier attempt":      {[]vote{old(20), old(20), other("x")}, true},
		"one, and one that is silent":    {[]vote{old(20), dead, fresh(20)}, true},
		"one, and one that was not sent": {[]vote{old(20), refusal, fresh(20)}, true},
		"one, and one that is not asked": {[]vote{old(20), {}, fresh(20)}, true},
		"one, confirmed by an earlier":   {[]vote{won(20, 3), other("x"), fresh(20)}, false},
		"one, and one that is asked":     {[]vote{old(20), asked(vote{}), fresh(20)}, true},
		"ours, confirmed by a later":     {[]vote{passed(confirmed(fresh(20), 9)), passed(confirmed(fresh(20), 9)), other("x")}, true},
	} {
		tally := tally{votes: c.votes, quorum: 2, try: ours}
		assert.Equal(t, c.want, tally.mayLive(), what)
	}
}

// Whose turn it is says the first server in the order that all processes share.
func TestTrap_T77_RedlockTurnIsTheFirstServersInTheSharedOrder(t *testing.T) {
	votes := []vote{fresh(20), waiting, fresh(20)}
	for what, c := range map[string]struct {
		order []int
		want  poise
	}{
		"the one that is reserved": {[]int{1, 0, 2}, queued},
		"another":                  {[]int{2, 1, 0}, agreed},
	} {
		tally := tally{votes: votes, order: c.order, quorum: 2, try: ours}
		got, _, _ := tally.poise()
		assert.Equal(t, c.want, got, what)
	}
}
