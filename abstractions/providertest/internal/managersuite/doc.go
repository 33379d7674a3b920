// Package managersuite has the checks whose names begin with Manager: like applications, they use the provider
// through a manager of package leasing. The promises of the manager must hold with this provider, with its
// capabilities, abilities and errors. A wrapper between the two loses, delays and repeats calls. Most checks need
// Harness.Virtual, because times are exact in virtual time only. The checks Manager_RealTime_... run on every
// server: see realtime.go.
package managersuite
