// Package model has the check that sends random requests to a provider, and compares answers and records with the rules of
// package providerkit.
package model
