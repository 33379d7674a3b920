// Package abilities has the checks of the optional abilities of a provider. A provider without the ability is left out.
package abilities
