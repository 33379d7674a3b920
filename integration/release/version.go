package main

// NextVersion is the version of the next release, of all released modules
// together. go.work and the go.mod files repeat it, since the go command reads
// them; the rules hold them to it.
const NextVersion = "v0.1.0"
