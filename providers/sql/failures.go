package sqllease

import (
	"cmp"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Classify interprets an error of a driver.
func (d *driver) Classify(err error) providerkit.Meaning {
	m := d.backend.Verdict(err).Meaning
	if m.Class == providerkit.NotSetUp {
		m.Advice = cmp.Or(m.Advice, "check the URL, Schema and Table, and call Migrate, or set Options.Create")
	}
	return m
}
