// Package recordstest has checks of providers that store their leases as cas.Records, in addition to those of package
// providertest.
package recordstest
