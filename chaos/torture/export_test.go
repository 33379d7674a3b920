package torture

// Shrink shrinks a run, and returns its options and a Go test for them. fails decides which runs fail.
func Shrink(o Options, fails func(Options) bool) (Options, string) {
	o = shrink(o, fails)
	return o, goTest(o)
}
