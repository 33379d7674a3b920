package sqllease

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions/providertest"
)

// Synchronous is a matter of the disk; the rest is ours.
func BenchmarkProvider(b *testing.B) {
	for dialect := range databases {
		b.Run(dialect, func(b *testing.B) { providertest.Benchmark(b, harness(dialect, nil)) })
	}
}
