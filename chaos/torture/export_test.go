package torture

// Shrink shrinks a run, and returns the options and a Go test of the smaller run. fails decides which runs fail.
func Shrink(o Options, fails func(Options) bool) (Options, string) {
	o = shrink(o, fails)
	return o, goTest(o)
}
