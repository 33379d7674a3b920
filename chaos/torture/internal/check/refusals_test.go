package check_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

func TestGhost(t *testing.T) {
	grant, release := op("acquire", "a", 0, 10*ms, history.ResultDone, 1), op("release", "a", 20*ms, 30*ms, history.ResultDone, 0)
	ghost := op("acquire", "a", 80*ms, 90*ms, history.ResultDone, 2)
	for name, c := range map[string]struct {
		ok         bool
		operations []history.Operation
	}{
		"nobody has come since":                  {operations: []history.Operation{grant, release, ghost}},
		"it is released again":                   {operations: []history.Operation{grant, release, ghost, op("release", "a", 100*ms, 110*ms, history.ResultDone, 0)}},
		"it never held the name":                 {operations: []history.Operation{release, ghost}},
		"released twice":                         {operations: []history.Operation{grant, release, op("release", "a", 40*ms, 50*ms, history.ResultUnknown, 0), ghost}},
		"another came and has not been given up": {operations: []history.Operation{release, op("acquire", "b", 40*ms, 50*ms, history.ResultRefused, 0), ghost}},
		"another was given up before":            {operations: []history.Operation{op("release", "b", 10*ms, 19*ms, history.ResultDone, 0), release, ghost}},
		"the backend granted it":                 {operations: []history.Operation{atBackend(grant), atBackend(release), atBackend(ghost)}},
		"another was given up after it":          {operations: []history.Operation{release, ghost, op("release", "b", 91*ms, 95*ms, history.ResultDone, 0)}},
		"another was given up in that instant":   {ok: true, operations: []history.Operation{op("release", "b", 10*ms, 20*ms, history.ResultDone, 0), release, ghost}},
		"another is given up meanwhile":          {ok: true, operations: []history.Operation{release, op("release", "b", 85*ms, 95*ms, history.ResultDone, 0), ghost}},
		"granted in the instant of the release":  {ok: true, operations: []history.Operation{release, op("acquire", "a", 30*ms, 90*ms, history.ResultDone, 2)}},
		"another has been given up since":        {ok: true, operations: []history.Operation{release, op("release", "b", 40*ms, 50*ms, history.ResultDone, 0), ghost}},
		"another may have been at the same time": {ok: true, operations: []history.Operation{op("release", "b", 10*ms, 25*ms, history.ResultDone, 0), release, ghost}},
		"another may have been, late":            {ok: true, operations: []history.Operation{op("release", "b", 0, 10*ms, history.ResultUnknown, 0), release, ghost}},
		"somebody's lease has been broken since": {ok: true, operations: []history.Operation{release, brokenAt(true, 40*ms, 50*ms), ghost}},
		"it may have been granted before":        {ok: true, operations: []history.Operation{release, op("acquire", "a", 25*ms, 90*ms, history.ResultDone, 2)}},
		"it may not have been released":          {ok: true, operations: []history.Operation{op("release", "a", 20*ms, 30*ms, history.ResultUnknown, 0), ghost}},
		"another was given up between two":       {ok: true, operations: []history.Operation{release, op("release", "b", 40*ms, 50*ms, history.ResultDone, 0), op("release", "a", 60*ms, 70*ms, history.ResultDone, 0), ghost}},
		"another's claim":                        {ok: true, operations: []history.Operation{release, op("acquire", "b", 80*ms, 90*ms, history.ResultDone, 2)}},
		"refused, as it must be":                 {ok: true, operations: []history.Operation{release, op("acquire", "a", 80*ms, 90*ms, history.ResultReleased, 0)}},
	} {
		h := history.History{TTL: ttl, Operations: c.operations}
		votes := options
		votes.Votes = true
		if c.ok {
			require.NotContains(t, checks(h, votes), history.CheckGhost, name)
		} else {
			require.Contains(t, checks(h, votes), history.CheckGhost, name)
		}
		votes.AssumptionsBroken = true
		require.NotContains(t, checks(h, votes), history.CheckGhost, name)
	}
	since := []history.Operation{release}
	for n := range 8 {
		require.Contains(t, checks(history.History{TTL: ttl, Operations: append(since, ghost)}, options), history.CheckGhost, "%d others were given up since", n)
		since = append(since, op("release", fmt.Sprint("b", n), 40*ms, 50*ms, history.ResultDone, 0))
	}
	require.NotContains(t, checks(history.History{TTL: ttl, Operations: append(since, ghost)}, options), history.CheckGhost, "eight are to be remembered")
}

func TestGrantOfSomethingElse(t *testing.T) {
	grant := op("acquire", "a", 0, 10*ms, history.ResultDone, 1)
	require.Empty(t, checks(history.History{Operations: []history.Operation{grant}}, options))
	grant.WrongName = "n, claim b"
	require.Equal(t, []history.Check{history.CheckAnswer}, checks(history.History{Operations: []history.Operation{grant}}, options))
}

func TestRefusedAsGivenUp(t *testing.T) {
	grant, refused := op("acquire", "a", 0, 10*ms, history.ResultDone, 1), op("renew", "a", 50*ms, 60*ms, history.ResultReleased, 1)
	for name, c := range map[string]struct {
		ok         bool
		operations []history.Operation
	}{
		"by nobody":                 {operations: []history.Operation{grant, refused}},
		"later":                     {operations: []history.Operation{grant, refused, op("release", "a", 70*ms, 80*ms, history.ResultDone, 0)}},
		"another":                   {operations: []history.Operation{grant, op("release", "b", 20*ms, 30*ms, history.ResultDone, 0), refused}},
		"before":                    {ok: true, operations: []history.Operation{grant, op("release", "a", 20*ms, 30*ms, history.ResultDone, 0), refused}},
		"maybe, and maybe only now": {ok: true, operations: []history.Operation{grant, op("release", "a", 55*ms, 0, history.ResultUnknown, 0), refused}},
		"broken":                    {ok: true, operations: []history.Operation{grant, brokenAt(false, 20*ms, 30*ms), refused}},
	} {
		h := history.History{TTL: ttl, Operations: c.operations}
		if c.ok {
			require.NotContains(t, checks(h, options), history.CheckRefusal, name)
		} else {
			require.Contains(t, checks(h, options), history.CheckRefusal, name)
		}
	}
}

func TestRefusedBecauseOfALeaseThatHasRunOut(t *testing.T) {
	layer := func(l history.Layer, operations ...history.Operation) history.History {
		for i := range operations {
			operations[i].Layer = l
		}
		return history.History{TTL: ttl, Operations: operations}
	}
	grant, renewed := op("acquire", "a", 0, 10*ms, history.ResultDone, 1), op("renew", "a", 500*ms, 510*ms, history.ResultDone, 1)
	late := heldBy("a", "b", 1200*ms, 1210*ms)
	precise := options
	precise.Lateness.Fixed = 100 * ms
	require.Contains(t, checks(layer(history.LayerBackend, grant, late), precise), history.CheckLeak)
	watched := precise
	watched.Lateness.Watched = true
	require.Empty(t, checks(layer(history.LayerBackend, grant, late), watched), "the backend reports no time")
	taken := op("acquire", "b", 1200*ms, 1210*ms, history.ResultDone, 2)
	require.Empty(t, checks(layer(history.LayerBackend, grant, taken), watched), "somebody has watched")
	require.NotContains(t, checks(layer(history.LayerBackend, grant, heldBy("a", "b", 1105*ms, 1300*ms)), precise), history.CheckLeak, "asked in time")
	require.NotContains(t, checks(layer(history.LayerClient, grant, late), precise), history.CheckLeak, "the answer may have been on its way for long")
	require.NotContains(t, checks(layer(history.LayerBackend, grant, renewed, late), precise), history.CheckLeak, "renewed")
	lost := op("renew", "a", 500*ms, 510*ms, history.ResultUnknown, 1)
	require.NotContains(t, checks(layer(history.LayerBackend, grant, lost, late), precise), history.CheckLeak, "maybe renewed")
	forever := op("renew", "a", 500*ms, 510*ms, history.ResultDone, 1)
	forever.TTL = leasing.Infinite
	require.NotContains(t, checks(layer(history.LayerBackend, grant, forever, late), precise), history.CheckLeak, "infinite")
}
