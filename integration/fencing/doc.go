// Package fencing tests the SQL and Redis checks of the root module's package
// fencing against real servers: the root module requires no driver, even in
// tests.
package fencing
