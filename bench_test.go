package leasing_test

import (
	"strconv"
	"testing"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func BenchmarkAcquireRelease(b *testing.B) {
	m, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close(b.Context())
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		l, err := m.TryAcquire(b.Context(), "bench/x/"+strconv.Itoa(i%100), nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
