package main

import (
	"fmt"
	"io"
	"time"

	"github.com/distributedleasing/leasing/chaos/torture"
)

// progress shows now and then how a run goes.
func progress(out io.Writer, plan string) func(torture.Progress) {
	var next time.Duration
	return func(p torture.Progress) {
		if p.Phase != "running" || p.Elapsed < next {
			return
		}
		next = p.Elapsed + max(time.Second, p.For/10)
		fmt.Fprintf(out, "%-18s %4.0fs of %3.0fs %6d leases %5d lost %7d faults %8d requests\n",
			plan, p.Elapsed.Seconds(), p.For.Seconds(), p.Grants, p.Losses, p.Faults, p.Operations)
	}
}
