package deadlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
)

// world has the holder of each name and the wait of each actor, as arranged by the test.
type world struct {
	holder []int // of each name; -1: free
	wants  []int // of each actor, a name; -1: none
}

// drawWorld draws a holder or none for each name, and for most actors a held name to wait for. An
// actor may hold any number of names.
func drawWorld(t *rapid.T, actors, names int) world {
	w := world{holder: make([]int, names), wants: make([]int, actors)}
	var held []int
	for n := range names {
		if w.holder[n] = rapid.IntRange(-1, actors-1).Draw(t, "holder"); w.holder[n] >= 0 {
			held = append(held, n)
		}
	}
	for a := range actors {
		w.wants[a] = -1
		if len(held) > 0 && rapid.IntRange(0, 9).Draw(t, "waits") > 1 {
			w.wants[a] = rapid.SampledFrom(held).Draw(t, "wants")
		}
	}
	return w
}

// cycleOf returns the actors of the cycle that an actor is in, starting with that actor, or nil
// if the actor is in no cycle.
func (w world) cycleOf(actor int) []int {
	path := []int{actor}
	for at := actor; w.wants[at] >= 0; path = append(path, at) {
		if at = w.holder[w.wants[at]]; at == actor {
			return path
		}
		if slices.Contains(path, at) {
			return nil
		}
	}
	return nil
}

func (w world) cycles() (n int) {
	for a := range w.wants {
		if path := w.cycleOf(a); path != nil && slices.Min(path) == a {
			n++
		}
	}
	return n
}

// arrange makes the actors, one after the other, hold and wait for the names of the world.
func arrange(t *testing.T, s *fixture, w world, options Options) ([]*testActor, []<-chan acquired, context.CancelFunc) {
	ctx, cancel := context.WithCancel(s.Context())
	players := make([]*testActor, len(w.wants))
	results := make([]<-chan acquired, len(w.wants))
	for a := range players {
		players[a] = s.actor(fmt.Sprint("actor ", a), options)
	}
	for n, a := range w.holder {
		if a >= 0 {
			players[a].takes(fmt.Sprint("name ", n), nil)
		}
	}
	for a, n := range w.wants {
		if n >= 0 {
			results[a] = players[a].acquires(ctx, fmt.Sprint("name ", n), nil)
			time.Sleep(time.Duration(a%7) * 10 * time.Millisecond)
		}
	}
	_ = t
	return players, results, cancel
}

// All actors of a cycle find it within After plus 1.25 times Every. No other actor finds a cycle.
func TestEveryRealCycleIsFoundAndNoOther(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(r, rapid.IntRange(1, 50).Draw(r, "actors"), rapid.IntRange(1, 200).Draw(r, "names"))
		withFixture(t, func(t *testing.T, s *fixture) {
			players, results, cancel := arrange(t, s, w, Options{Policy: Report})
			time.Sleep(after + every + every/confirmSpeedup)
			for a, p := range players {
				path := w.cycleOf(a)
				if path == nil {
					require.Empty(t, p.cycles(), "actor %d", a)
					continue
				}
				require.Len(t, p.cycles(), 1, "actor %d", a)
				var owners, expected []string
				for _, wait := range p.cycles()[0].Waits {
					owners = append(owners, wait.Owner)
				}
				for _, member := range path {
					expected = append(expected, fmt.Sprint("actor ", member))
				}
				require.Equal(t, expected, owners)
			}
			cancel()
			for _, result := range results {
				if result != nil {
					<-result
				}
			}
		})
	})
}

// If the actors that give way release their leases, all others make progress: one actor gives way
// for each cycle, and no actor outside a cycle gives way.
func TestOneGivesWayForEachCycle(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(r, rapid.IntRange(1, 20).Draw(r, "actors"), rapid.IntRange(1, 40).Draw(r, "names"))
		withFixture(t, func(t *testing.T, s *fixture) {
			players, results, cancel := arrange(t, s, w, Options{})
			defer cancel()
			refused := 0
			for a, result := range results {
				if result == nil { // this actor does not wait, and releases its leases at once
					players[a].releaseAll()
				}
			}
			done := make(chan int)
			for a, result := range results {
				if result != nil {
					go func() {
						got := <-result
						_, is := errors.AsType[*Error](got.err)
						if got.err != nil && !is {
							t.Errorf("actor %d: %v", a, got.err)
						}
						players[a].releaseAll()
						if is {
							done <- 1
						} else {
							done <- 0
						}
					}()
				}
			}
			for _, result := range results {
				if result != nil {
					refused += <-done
				}
			}
			require.Equal(t, w.cycles(), refused)
		})
	})
}

// releaseAll releases all leases of an actor.
func (p *testActor) releaseAll() {
	for _, lease := range p.leases() {
		if err := lease.Release(context.Background()); err != nil && !errors.Is(err, leasing.ErrReleased) {
			p.f.Errorf("%s: %v", p.name, err)
		}
	}
}
