// Command scenarios runs one process of a classic use of leases. Each use has a file of its own. Start the command several
// times, and stop, kill or pause a process:
//
//	go run ./scenarios daily                             # leases and data in SQLite files of this folder
//	go run ./scenarios -url redis://127.0.0.1 daily      # leases elsewhere
//	go run ./scenarios reply message-1 message-2
//	go run ./scenarios throttle http://127.0.0.1:8080
//
// "make demo" and "make samples" do all this, and check the promises: integration/scenarios.
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/distributedleasing/leasing/samples/internal/app"
)

var scenarios = map[string]func(context.Context, *app.App) error{
	"daily": daily, "election": election, "fanout": fanout, "migrate": migrate, "reply": reply, "throttle": throttle,
}

func main() {
	app.Main("samples", func(ctx context.Context, a *app.App) error {
		run := scenarios[flag.Arg(0)]
		if run == nil {
			return fmt.Errorf("no scenario %q: want daily, election, fanout, migrate, reply or throttle", flag.Arg(0))
		}
		return run(ctx, a)
	})
}
