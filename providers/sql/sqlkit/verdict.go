package sqlkit

import (
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Verdict is the meaning of an error from a driver. In the zero Verdict the outcome is unknown.
type Verdict struct {
	providerkit.Meaning
	// Close says that the connection is of no further use.
	Close bool
	// RolledBack says that the database reports the error instead of committing: the statement, or the COMMIT, has
	// changed nothing.
	RolledBack bool
	// Unprepared says that the server forgets prepared statements: send statements unprepared.
	Unprepared bool
}

// Is returns the verdict with a class.
func Is(class providerkit.Class) Verdict {
	return Verdict{Meaning: providerkit.Meaning{Class: class}}
}

// Closing returns the verdict with a class and advice, for a connection that is of no further use.
func Closing(class providerkit.Class, advice string) Verdict {
	return Verdict{Meaning: providerkit.Meaning{Class: class, Advice: advice}, Close: true}
}

// byNumber turns verdicts and their error numbers into a table by number.
func byNumber[N int | int32](numbers map[Verdict][]N) map[N]Verdict {
	byNumber := map[N]Verdict{}
	for verdict, all := range numbers {
		for _, number := range all {
			byNumber[number] = verdict
		}
	}
	return byNumber
}
