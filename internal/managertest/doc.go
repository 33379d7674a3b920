// Package managertest tests a manager through the public API of package leasing, in virtual time.
package managertest
