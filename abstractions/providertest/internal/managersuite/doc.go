// Package managersuite has the checks whose names begin with Manager: they have a manager of package leasing between
// them and the provider, like applications. The promises of the manager have to be true
// over this provider, with its capabilities, abilities and errors. A wrapper between the
// two loses, delays and repeats calls. Most checks need Harness.Virtual, because times are
// exact in virtual time only. The checks Manager_RealTime_... run on every server: see realtime.go.
package managersuite
