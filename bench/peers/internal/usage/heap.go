package usage

import "runtime"

// Heap returns the bytes of live objects and of goroutines' stacks, after a
// garbage collection. Two runs, so that what finalizers held is gone as well.
func Heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

// Mallocs returns how many objects were ever allocated.
func Mallocs() int64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.Mallocs)
}
