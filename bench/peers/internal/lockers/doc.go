// Package lockers puts this library, its peers and their floors behind one
// interface, each as its users would use it: with the settings of its own
// documentation, and where it renews nothing by itself, with the loop that its
// users write.
package lockers
