//go:build unix

package usage

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCPUGrowsWithWork(t *testing.T) {
	before := CPU()
	x := 1
	for CPU() == before {
		for range 1000 {
			x = x*31 + 7
		}
	}
	runtime.KeepAlive(x)
	assert.Greater(t, CPU(), before)
}
