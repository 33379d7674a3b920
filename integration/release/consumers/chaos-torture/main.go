// The first program of a user of chaos/torture. It tests a provider that loses replies, and prints the verdict.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func main() {
	report, err := torture.Run(context.Background(), torture.Options{
		Open: torture.Share(memlease.New(memlease.Options{})),
		Plan: chaos.LostReplies(chaos.LostRepliesOptions{}),
		For:  2 * time.Second,
		TTL:  500 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report)
	if err := report.Err(); err != nil {
		log.Fatal(err)
	}
}
