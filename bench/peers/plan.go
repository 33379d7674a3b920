package main

import (
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// plan is what to measure.
type plan struct {
	workloads []workload
	peers     []lockers.Peer
	rounds    int
	quick     bool
	urls      map[int]string // by number of servers
}

// measurement is one cell of the plan, without its rounds.
type measurement struct {
	workload workload
	variant  variant
	peer     lockers.Peer
}

// newPlan picks by name; no names are all.
func newPlan(workloadNames, peerNames []string) (plan, error) {
	p := plan{workloads: workloads, peers: peers}
	if len(workloadNames) > 0 {
		p.workloads = nil
		for _, name := range workloadNames {
			w, err := workloadByName(name)
			if err != nil {
				return plan{}, err
			}
			p.workloads = append(p.workloads, w)
		}
	}
	if len(peerNames) > 0 {
		p.peers = nil
		for _, name := range peerNames {
			peer, err := peerByName(name)
			if err != nil {
				return plan{}, err
			}
			p.peers = append(p.peers, peer)
		}
	}
	return p, nil
}

// servers says which variables must be set, by the number of servers they name.
func (p plan) servers() []int {
	var numbers []int
	for _, w := range p.workloads {
		for _, peer := range p.peers {
			if peer.Servers > 0 && w.takes(peer) && !slices.Contains(numbers, peer.Servers) {
				numbers = append(numbers, peer.Servers)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

// tables are the measurements, grouped as they are compared.
func (p plan) tables() [][]measurement {
	var tables [][]measurement
	for _, w := range p.workloads {
		for _, v := range w.variants(p.quick) {
			var rows []measurement
			for _, peer := range p.peers {
				if w.takes(peer) {
					rows = append(rows, measurement{w, v, peer})
				}
			}
			if len(rows) > 0 {
				tables = append(tables, rows)
			}
		}
	}
	return tables
}

// order is the measurements of one round. The peers of a table follow each
// other, each round begins with another of them, and every other round goes
// backwards: no peer always comes after the same one.
func (p plan) order(round int) []measurement {
	var all []measurement
	for _, rows := range p.tables() {
		first := round % len(rows)
		turned := slices.Concat(rows[first:], rows[:first])
		if round%2 == 1 {
			slices.Reverse(turned)
		}
		all = append(all, turned...)
	}
	return all
}

func (m measurement) String() string {
	return fmt.Sprintf("%s, %s, %s", m.workload.name, m.variant.Label, m.peer.Name)
}

// key tells measurements apart.
func (m measurement) key() string { return m.String() }
