// Package fencing tests the SQL checks of the root module's package fencing
// against real databases: the root module requires no driver, even in tests.
package fencing
