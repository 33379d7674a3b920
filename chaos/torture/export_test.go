package torture

// Shrink shrinks a run. The test decides which runs fail.
func Shrink(o Options, fails func(Options) bool) (Options, string) {
	o = shrink(o, fails)
	return o, goTest(o)
}
