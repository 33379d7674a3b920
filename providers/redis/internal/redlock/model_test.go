package redlock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Attempts of one claim against nodes that do what the scripts do, one message at a
// time in all orders that chance makes up, with messages lost. Those who win have the
// same token. (The scripts themselves are in TestTrap_T13_RedlockClaimHasOneToken.)
func TestTrap_T13_RedlockAgreementInEveryOrder(t *testing.T) {
	wins, several := 0, 0
	for seed := range uint64(30000) {
		m := newModel(rand.New(rand.NewPCG(seed, 1)))
		m.run()
		winners := 0
		for _, a := range m.attempts {
			if a.token == 0 || !a.won {
				continue
			}
			winners++
			require.Equal(t, m.token, a.token, "seed %d", seed)
		}
		wins += winners
		if winners > 1 {
			several++
		}
	}
	require.Greater(t, wins, 10000)
	require.Greater(t, several, 1000)
}

type model struct {
	*rand.Rand
	nodes    []vote // as the scripts have them; made is 0 without a lease
	attempts []*modelAttempt
	messages []func()
	token    int64 // of the first who has won
	clock    int64
	lossy    bool
}

// modelStep is tryStep.
const modelStep = 10

type modelAttempt struct {
	tally
	m     *model
	floor int64
	won   bool
	over  bool
}

func newModel(r *rand.Rand) *model {
	m := &model{Rand: r, nodes: make([]vote, 3+2*r.IntN(2)), lossy: r.IntN(2) == 0, clock: 100}
	for i := range 2 + m.IntN(3) {
		a := &modelAttempt{m: m}
		a.votes, a.quorum, a.try = make([]vote, len(m.nodes)), len(m.nodes)/2+1, modelStep+int64(i)
		if m.IntN(2) == 0 {
			a.floor = 200 + int64(m.IntN(3))
		}
		m.attempts = append(m.attempts, a)
	}
	return m
}

func (m *model) run() {
	started := 0
	for started < len(m.attempts) || len(m.messages) > 0 {
		if len(m.messages) == 0 || started < len(m.attempts) && m.IntN(6) == 0 {
			m.attempts[started].ask()
			started++
			continue
		}
		i := m.IntN(len(m.messages))
		message := m.messages[i]
		m.messages = slices.Delete(m.messages, i, i+1)
		message()
	}
}

// send has a node do something, and its answer heard; both at some time, or never.
func (a *modelAttempt) send(i int, do func(node *vote) func(v *vote)) {
	a.votes[i].pending = true
	lost := func() { // at some time it is given up
		a.m.messages = append(a.m.messages, func() {
			a.votes[i] = vote{stance: noVote, unsure: true, err: errSilent}
			a.next()
		})
	}
	if a.m.lossy && a.m.IntN(20) == 0 {
		lost()
		return
	}
	refused := a.m.lossy && a.m.IntN(20) == 0 // it casts no vote for now: its memory is full, say
	a.m.messages = append(a.m.messages, func() {
		if refused {
			a.m.messages = append(a.m.messages, func() {
				a.votes[i] = vote{stance: noVote, err: errRefused}
				a.next()
			})
			return
		}
		hear := do(&a.m.nodes[i])
		if a.m.lossy && a.m.IntN(20) == 0 {
			lost()
			return
		}
		a.m.messages = append(a.m.messages, func() {
			a.votes[i].pending = false
			hear(&a.votes[i])
			a.next()
		})
	})
}

func (a *modelAttempt) ask() {
	for i := range a.votes {
		if !a.votes[i].pending {
			a.vote(i)
		}
	}
}

// vote is scripts/vote.lua.
func (a *modelAttempt) vote(i int) {
	try, floor := a.try, a.floor
	a.votes[i].stance = noAnswer
	a.send(i, func(node *vote) func(v *vote) {
		a.m.clock++
		if node.made == 0 {
			*node = vote{token: max(a.m.clock, floor), made: try, promise: try, before: 10}
		}
		node.promise = max(node.promise, try)
		reply := *node
		return func(v *vote) {
			*v = reply
			v.stance = forUs
		}
	})
}

// confirm is scripts/confirm.lua.
func (a *modelAttempt) confirm(i int) {
	try, token := a.try, a.token
	a.send(i, func(node *vote) func(v *vote) {
		if node.promise > try {
			promise := node.promise
			return func(v *vote) { v.promise = promise }
		}
		node.token, node.won, node.promise = token, try, try
		return func(v *vote) { v.token, v.won, v.promise = token, try, try }
	})
}

// next does what attempt.pursue does.
func (a *modelAttempt) next() {
	if a.over {
		return
	}
	for i := range a.votes {
		if v := &a.votes[i]; v.stance == forUs && v.promise < a.try && !v.pending {
			a.vote(i)
		}
	}
	where, token, settled := a.poise()
	switch {
	case where == agreed && settled:
		a.token, a.won, a.over = token, true, true
		if a.m.token == 0 {
			a.m.token = token
		}
	case where == agreed:
		if _, certain := a.choose(); a.token == 0 && !certain { // sameness gives way to progress
			a.over = true
			return
		}
		a.token = token
		sent := a.count(pending) > 0
		for i := range a.votes {
			if v := &a.votes[i]; a.ours(v) && !v.pending && v.won != a.try {
				a.confirm(i)
				sent = true
			}
		}
		a.over = !sent
	case where == overtaken:
		latest := a.try
		for i := range a.votes {
			latest = max(latest, a.votes[i].promise)
		}
		a.try, a.token = (latest/modelStep+1)*modelStep+a.try%modelStep, 0
		a.ask()
	case where == unreachable:
		a.over = true
	case where != undecided:
		panic(fmt.Sprint("nobody else is here, and yet ", where))
	}
}
