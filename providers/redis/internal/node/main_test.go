package node

import (
	"testing"

	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
