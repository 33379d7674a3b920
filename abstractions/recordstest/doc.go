// Package recordstest has checks of providers that store their leases as cas.Records, beside those of package providertest.
package recordstest
