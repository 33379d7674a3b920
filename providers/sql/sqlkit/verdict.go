package sqlkit

import "github.com/distributedleasing/leasing/abstractions/providerkit"

// Verdict is what an error of a driver says. The zero Verdict says nothing.
type Verdict struct {
	providerkit.Meaning
	// Close says that the connection may not be used again.
	Close bool
	// Unprepared says that the server forgets prepared statements: send each statement whole.
	Unprepared bool
}

// is returns the verdict of a class.
func is(class providerkit.Class) Verdict {
	return Verdict{Meaning: providerkit.Meaning{Class: class}}
}

// closing is the verdict of a class, and says that the connection may not be used again.
func closing(class providerkit.Class, advice string) Verdict {
	return Verdict{Meaning: providerkit.Meaning{Class: class, Advice: advice}, Close: true}
}
