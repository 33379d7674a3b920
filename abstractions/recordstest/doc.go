// Package recordstest has checks for providers that store their leases as cas.Records, in addition to the checks of
// package providertest.
package recordstest
