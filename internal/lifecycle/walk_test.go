package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// walk returns the plan with three processes that make many claims each.
func (p plan) walk() *plan {
	p.processes, p.claims, p.requests = 3, 20, 6
	p.copies *= 10
	p.breaks *= 5
	p.deaths *= 5
	return p.withDefaults()
}

// TestWalks makes long random walks, while TestSearch makes all short ones. Package rapid shortens the trace of an error.
func TestWalks(t *testing.T) {
	steps := 400
	if testing.Short() {
		steps = 100
	}
	for _, p := range plans {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p := p.walk()
			rapid.Check(t, func(draw *rapid.T) {
				w := p.first()
				var list []move
				var trace strings.Builder
				for i := range steps {
					list = w.moves(list[:0])
					m := rapid.SampledFrom(list).Draw(draw, "move")
					fmt.Fprintf(&trace, "%d. %s\n", i+1, w.describe(m))
					w.do(m)
					if violation := w.check(); violation != "" {
						draw.Fatalf("%s%s", &trace, violation)
					}
				}
			})
		})
	}
}
