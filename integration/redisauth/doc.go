// Package redisauth checks that leases on Redis outlive the tokens that their
// connections were signed in with.
package redisauth
