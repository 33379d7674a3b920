// Package abilities has the checks of the optional abilities of a provider. The checks of an ability are skipped for a
// provider without that ability.
package abilities
