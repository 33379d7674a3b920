package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/history"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func Example() {
	ctx := context.Background()
	var file strings.Builder // in an application, a file that was opened with os.O_APPEND
	recorder, err := history.New(history.JSONLines(&file), history.Options{})
	if err != nil {
		log.Fatal(err)
	}
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{Owner: "worker 1"})
	if err != nil {
		log.Fatal(err)
	}
	manager.Subscribe(recorder.Observe)
	err = manager.Do(ctx, "jobs/daily", func(context.Context, *leasing.Lease) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	_ = manager.Close(ctx)
	_ = recorder.Close(ctx)

	for line := range strings.Lines(file.String()) {
		var entry abstractions.NamedEntry
		_ = json.Unmarshal([]byte(line), &entry)
		fmt.Println(entry.Owner, "has", entry.Kind, entry.Name)
	}
	// Output:
	// worker 1 has acquired jobs/daily
	// worker 1 has released jobs/daily
}
